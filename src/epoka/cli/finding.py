"""Finds the cluster that a command means: by address, by data directory, or the one that `epoka up` runs.

`epoka up` leaves a note in a folder of its user while it runs. A note whose cluster nobody runs any more is
swept away: the lock in the data directory tells.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from epoka.cli.output import Failed, usage
from epoka.client.errors import BadSetting
from epoka.client.settings import Address, ClientSettings, settings_from
from epoka.cluster.errors import BadCluster
from epoka.cluster.layout import ClusterFile, is_running, read_cluster_file
from epoka.cluster.ports import HOST
from epoka.node.properties import entries

ANSWER_MS = 10_000
"""How long a broker may take for an answer, unless a property file says otherwise."""
_REACHING = ("security.", "ssl.", "sasl.", "client.", "request.timeout.ms")
"""How properties begin that are about reaching a cluster, and not about what is done there."""


def _notes() -> Path:
    folder = Path(tempfile.gettempdir()) / f"epoka-clusters-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise Failed(f"{folder} belongs to somebody else")
    return folder


@contextlib.contextmanager
def noted(data: Path) -> Iterator[None]:
    """While this lasts, commands without an address find the cluster in `data`."""
    note = _notes() / str(os.getpid())
    note.write_text(str(data))
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def running() -> list[Path]:
    """The data directories of the clusters that run now."""
    found: list[Path] = []
    for note in sorted(_notes().iterdir()):
        with contextlib.suppress(OSError):
            data = Path(note.read_text())
            if data == Path():
                # It is being written.
                continue
            if not is_running(data):
                note.unlink(missing_ok=True)
            elif data not in found:
                # Of two notes, one is left from before the cluster was killed and started again.
                found.append(data)
    return found


def the_folder(data: Path | None) -> Path:
    """The data directory that is meant: the one given, or that of the only cluster that runs."""
    if data is not None:
        return data.absolute()
    found = running()
    if not found:
        raise Failed("no cluster is running here; start one with `epoka up`, or say which is meant")
    if len(found) > 1:
        usage(f"{len(found)} clusters are running; choose one with --data: {', '.join(map(str, found))}")
    return found[0]


def the_file(folder: Path) -> ClusterFile:
    """What the cluster in a folder is."""
    try:
        known = read_cluster_file(folder)
    except BadCluster as error:
        raise Failed(str(error)) from error
    if known is None:
        raise Failed(f"there is no cluster in {folder}")
    return known


def addresses(bootstrap: str | None, data: Path | None) -> list[Address]:
    """Where the brokers of the cluster are that is meant."""
    if bootstrap is not None and data is not None:
        usage("--bootstrap and --data both say which cluster is meant; give one")
    if bootstrap is None:
        known = the_file(the_folder(data))
        return [(HOST, client_port) for client_port, _ in known.brokers.values()]
    return [address(each) for each in bootstrap.split(",")]


def address(text: str) -> Address:
    host, separator, port = text.strip().rpartition(":")
    if not separator or not host or not port.isdigit() or not 0 < int(port) < 65536:
        usage(f"an address is written as host:port, not {text!r}")
    return host.strip("[]"), int(port)


class ClientConfig:
    """What `--command-config` said, for the one command that this process does."""

    settings = ClientSettings((), request_timeout_ms=ANSWER_MS)
    reaching: Mapping[str, str] = {}
    """The properties that say how a cluster is reached, as they were written, for whoever hands them on."""

    @classmethod
    def read(cls, path: Path) -> None:
        """Take a client's property file, in Kafka's names."""
        try:
            given = {name: value for _, name, value in entries(path.read_text(encoding="utf-8"))}
        except (OSError, UnicodeDecodeError) as error:
            usage(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")
        try:
            # Which brokers are meant says --bootstrap.
            usual = {"request.timeout.ms": str(ANSWER_MS)}
            cls.settings = settings_from({**usual, **given, "bootstrap.servers": "localhost:9092"})
        except BadSetting as error:
            usage(f"{path}: {error}")
        cls.reaching = {name: value for name, value in given.items() if name.lower().startswith(_REACHING)}


def client_settings(bootstrap: str | None, data: Path | None) -> ClientSettings:
    """How the cluster that is meant is reached."""
    return msgspec.structs.replace(ClientConfig.settings, bootstrap=tuple(addresses(bootstrap, data)))
