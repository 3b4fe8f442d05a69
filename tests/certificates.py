"""Certificates that tests believe in, made anew for each run."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme

HOST = "127.0.0.1"


class Authority:
    """Somebody who vouches for clients or for nodes."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._authority = trustme.CA(organization_name=name)
        self._folder = folder
        self.truststore = folder / f"{name}.pem"
        self._authority.cert_pem.write_to_path(str(self.truststore))

    def keystore(self, name: str, *hosts: str) -> Path:
        """A PEM file with the key and the certificate of `name`, for loopback unless told otherwise."""
        issued = self._authority.issue_cert(*(hosts or (HOST,)), common_name=name)
        path = self._folder / f"{name}.pem"
        issued.private_key_and_cert_chain_pem.write_to_path(str(path))
        return path

    def client(self, keystore: Path | None = None) -> ssl.SSLContext:
        """What a client needs that believes this authority, and shows a certificate if it has one."""
        context = ssl.create_default_context(cafile=str(self.truststore))
        if keystore is not None:
            context.load_cert_chain(keystore)
        return context
