"""Where an ensemble is and who we are to it: what the configuration says, checked without any connection."""

from __future__ import annotations

import re
from typing import Final

import msgspec

DEFAULT_PORT: Final = 2181


class BadConnectString(ValueError):
    """`zookeeper.connect` is not a list of addresses."""


class Credentials(msgspec.Struct, frozen=True):
    """Who we are: ZooKeeper's own `digest`, or a SASL mechanism such as DIGEST-MD5 or GSSAPI."""

    mechanism: str = "digest"
    username: str = ""
    password: str = ""
    service: str = "zookeeper"

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, {self.username}, ***)"


class Connect(msgspec.Struct, frozen=True):
    """What `zookeeper.connect` says: addresses, and the node under which everything lives."""

    hosts: tuple[str, ...]
    chroot: str = ""

    @classmethod
    def parse(cls, text: str) -> Connect:
        """`host:port,host:port/chroot`; BadConnectString names what is wrong."""
        addresses, slash, path = text.strip().partition("/")
        hosts = []
        for address in addresses.split(","):
            found = re.fullmatch(r"(\[[0-9a-fA-F:.%]+\]|[^\s:\[\]]+)(?::(\d+))?", address.strip())
            if found is None:
                raise BadConnectString(f"zookeeper.connect: {address!r} is not an address like host:2181")
            port = int(found[2] or DEFAULT_PORT)
            if not 0 < port < 65536:
                raise BadConnectString(f"zookeeper.connect: there is no port {port}")
            hosts.append(f"{found[1]}:{port}")
        chroot = f"/{path}".rstrip("/") if slash else ""
        if "," in chroot:
            raise BadConnectString("zookeeper.connect: the path comes once, behind the last address")
        if any(part in ("", ".", "..") for part in chroot.split("/")[1:]):
            raise BadConnectString(f"zookeeper.connect: {slash}{path} is not a path")
        return cls(tuple(hosts), chroot)

    def __str__(self) -> str:
        return ",".join(self.hosts) + self.chroot
