"""Ports that belong to one cluster for as long as it lives."""

from __future__ import annotations

import socket

import pytest

from epoka.cluster.errors import BadCluster, PortTaken
from epoka.cluster.ports import HOST, Ports


@pytest.fixture
def ports() -> Ports:
    held = Ports()
    yield held
    held.close()


def listen(port: int) -> socket.socket:
    """A socket as a node would open it."""
    node = socket.socket()
    node.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    node.bind((HOST, port))
    node.listen()
    return node


def test_a_node_may_listen_on_a_held_port_again_and_again(ports: Ports) -> None:
    port = ports.take()
    for _ in range(2):
        with listen(port), socket.create_connection((HOST, port), timeout=5):
            pass


def test_nobody_else_gets_a_held_port(ports: Ports) -> None:
    port = ports.take()
    with socket.socket() as stranger, pytest.raises(OSError):
        stranger.bind((HOST, port))


def test_a_client_of_a_broker_that_is_down_is_refused_at_once(ports: Ports) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, ports.take()), timeout=5)


def test_a_port_in_use_is_named(ports: Ports) -> None:
    with listen(0) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} on {HOST} is in use"):
            ports.take(port)


def test_a_port_that_was_taken_in_the_meantime_is_replaced(ports: Ports) -> None:
    free = ports.take()
    ports.close()
    with listen(0) as other:
        taken = other.getsockname()[1]
        again, instead = ports.take_again([free, taken])
    assert again == free
    assert instead not in (0, taken)


def test_a_port_that_cannot_be_is_refused(ports: Ports) -> None:
    with pytest.raises(BadCluster, match="there is no port 70000"):
        ports.take(70000)
