"""One broker as a process of its own, with its controller inside: started, stopped, killed and started again.

It keeps its port and its folder from one life to the next, so clients find it again.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from epoka.wire import frame
from epoka.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.waiting import wait_until

HOST = "127.0.0.1"
METADATA = 3
METADATA_VERSION = 12

PORTS = range(10_000, 30_000)
"""Below the ports of outgoing connections, so that nobody takes the port of a broker while it is down."""

FOR_TESTS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
}

_asked = count()


def free_port() -> int:
    """A port that nobody uses, and that no other test process is likely to ask for at the same time."""
    for _ in PORTS:
        port = PORTS[(os.getpid() * 131 + next(_asked)) % len(PORTS)]
        with socket.socket() as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                attempt.bind((HOST, port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")


class BrokerProcess:
    """The broker, whether it runs at the moment or not."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        *,
        port: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.tls = tls
        self.port = free_port() if port is None else port
        self.log_path = folder / "broker.log"
        self.log_dir = folder / "logs"
        self._config_path = folder / "broker.properties"
        self._process: subprocess.Popen[bytes] | None = None
        values = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": f"{'PLAINTEXT' if tls is None else 'SSL'}://{HOST}:{self.port}",
            "log.dirs": str(self.log_dir),
            **FOR_TESTS,
            **(settings or {}),
        }
        self._config_path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """Everything it has said, in all its lives."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self) -> None:
        """Start it and wait until it tells clients about itself."""
        assert self._process is None
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "epoka.node.process", "--config", str(self._config_path)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        wait_until(self._is_ready, lambda: f"the broker to be ready; its log:\n{self.log}")

    def stop(self) -> int:
        """A controlled shutdown; returns the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """The end without warning."""
        self._end(signal.SIGKILL)

    def restart(self, how: str) -> None:
        """End it, `clean` or `unclean`, and start it again."""
        if how == "clean":
            code = self.stop()
            assert code == 0, f"the broker ended with {code}; its log:\n{self.log}"
        else:
            self.kill()
        self.start()

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def connect(self) -> socket.socket:
        """A bare connection to it."""
        connection = socket.create_connection((HOST, self.port), timeout=10)
        return connection if self.tls is None else self.tls.wrap_socket(connection, server_hostname=HOST)

    def metadata(self) -> MetadataResponse:
        """What it tells a client that asks for every topic."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        with self.connect() as connection, connection.makefile("rb") as stream:
            connection.sendall(
                b"".join(frame.encode_request(METADATA, METADATA_VERSION, 1, "tests", request))
            )
            size = int.from_bytes(stream.read(4))
            _, response = frame.decode_response(METADATA, METADATA_VERSION, stream.read(size))
        assert isinstance(response, MetadataResponse)
        return response

    def _is_ready(self) -> bool:
        assert self._process is not None
        code = self._process.poll()
        assert code is None, f"the broker ended with {code}; its log:\n{self.log}"
        try:
            return bool(self.metadata().brokers)
        except (OSError, EOFError, frame.WireError):
            return False

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        try:
            code = self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the broker did not end on {number.name}; its log:\n{self.log}") from None
        self._process = None
        return code


@contextmanager
def running_broker(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    *,
    port: int | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[BrokerProcess]:
    """A broker that has started; it is gone afterwards, whatever happened."""
    broker = BrokerProcess(folder, settings, port=port, tls=tls)
    try:
        broker.start()
        yield broker
    finally:
        if broker.is_running():
            broker.kill()
