"""TLS at the doors and between nodes: who is let in, who is not, and nothing is answered in the clear."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from cryptography.hazmat.primitives import serialization

from epoka.model.events import Disconnected, Respond, Send
from epoka.node.client import ClientLimits, Links
from epoka.node.config import NodeConfig, parse
from epoka.node.process import Node, StartFailed
from epoka.node.server import ServerLimits
from epoka.node.tls import of_door, principal_of, towards_nodes
from epoka.wire import frame as wire
from epoka.wire.messages.heartbeat import HeartbeatRequest
from tests.certificates import Authority

Kit = SimpleNamespace
Lines = Callable[[], list[str]]


class House:
    """The files of a cluster: one authority for clients, one for nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clients = Authority(folder / "clients", "clients")
        self.nodes = Authority(folder / "nodes", "nodes")
        self.keystore = self.clients.keystore("door")
        self.nodes_keystore = self.nodes.keystore("node-1")

    def config(self, **changes: str) -> NodeConfig:
        values = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "log.dirs": str(self.folder / "data"),
            "listeners": "SSL://127.0.0.1:0,CONTROL://127.0.0.1:0",
            "listener.security.protocol.map": "CONTROL:SSL",
            "ssl.keystore.location": str(self.keystore),
            "ssl.truststore.location": str(self.clients.truststore),
            "listener.name.control.ssl.keystore.location": str(self.nodes_keystore),
            "listener.name.control.ssl.truststore.location": str(self.nodes.truststore),
        }
        return parse(values | {name.replace("_", "."): text for name, text in changes.items()})

    def door(self, name: str = "SSL", **changes: str) -> ssl.SSLContext:
        context = of_door(self.config(**changes), name)
        assert context is not None
        return context


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("house"))


async def test_requests_are_answered_over_tls(kit: Kit, house: House) -> None:
    async with kit.open_door(tls=house.door()) as door:
        client = await door.connect(tls=house.clients.client())
        client.heartbeats(*range(300))
        assert [(await client.answer())[1].error_code for _ in range(300)] == list(range(300))
        assert door.core.requests[0].peer.principal == "User:ANONYMOUS"
        assert client.writer.get_extra_info("ssl_object").version() == "TLSv1.3"


async def test_a_large_request_and_a_large_answer_come_whole(kit: Kit, house: House) -> None:
    async with kit.open_door(tls=house.door()) as door:
        client = await door.connect(tls=house.clients.client())
        member = "m" * 30_000
        client.send(*(HeartbeatRequest("g", number, member) for number in range(50)))
        assert [(await client.answer())[1].error_code for _ in range(50)] == list(range(50))
        assert {request.message.member_id for request in door.core.requests} == {member}


async def test_a_peer_that_speaks_in_the_clear_is_sent_away_with_one_line(
    kit: Kit, house: House, lines: Lines
) -> None:
    async with kit.open_door(tls=house.door()) as door:
        client = await door.connect()
        client.heartbeats(1)
        assert b"\0\0\0" not in await client.closed()
        await kit.eventually(lambda: not door.listener.connections)
        assert not door.core.requests
        (line,) = lines()
        assert "TLS: wrong version number" in line


async def test_older_versions_of_tls_are_refused(kit: Kit, house: House) -> None:
    old = house.clients.client()
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    async with kit.open_door(tls=house.door()) as door:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await door.connect(tls=old)


async def test_whoever_never_ends_its_handshake_counts_and_is_sent_away(
    kit: Kit, house: House, lines: Lines
) -> None:
    limits = ServerLimits(max_connections=1, max_handshake_ms=300)
    async with kit.open_door(tls=house.door(), limits=limits) as door:
        silent = await door.connect()
        await kit.eventually(lambda: len(door.listener.connections) == 1)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await door.connect(tls=house.clients.client())
        assert await silent.closed() == b""
        await kit.eventually(lambda: not door.listener.connections)
        assert await (await door.connect(tls=house.clients.client())).round_trip() == 7
        refused, late = lines()
        assert "max.connections" in refused and "no handshake within 300 ms" in late


async def test_whoever_only_looks_whether_the_port_is_open_leaves_no_trace(
    kit: Kit, house: House, lines: Lines
) -> None:
    async with kit.open_door(tls=house.door()) as door:
        for said in (b"", b"\x16\x03\x01"):
            looker = await door.connect()
            await kit.eventually(lambda: door.listener.connections)
            looker.writer.write(said)
            await looker.writer.drain()
            looker.close()
            await kit.eventually(lambda: not door.listener.connections)
        assert lines() == []
        assert not door.listener._per_ip and not door.listener.arriving_bytes


async def test_a_door_that_is_shut_waits_for_no_handshake(kit: Kit, house: House) -> None:
    async with kit.open_door(tls=house.door()) as door:
        silent = await door.connect()
        await kit.eventually(lambda: door.listener.connections)
        await door.listener.close()
        assert await silent.closed() == b""
        await kit.eventually(lambda: not door.listener.connections)
        gone = [event for event in door.core.events if isinstance(event, Disconnected)]
        assert len(gone) == 1


def _hurried(port: int, context: ssl.SSLContext, generations: range) -> list[int]:
    """The answers to requests that leave together with the last bytes of the handshake."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    wrapped = context.wrap_bio(received, sent, server_hostname="127.0.0.1")
    reader = wire.FrameReader(1_000_000)
    answers: list[int] = []
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        while True:
            try:
                wrapped.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(sent.read())
                received.write(plain.recv(65_536))
        for number in generations:
            request = HeartbeatRequest("g", number, "m")
            wrapped.write(b"".join(wire.encode_request(12, 0, number, "hurried", request)))
        plain.sendall(sent.read())
        while len(answers) < len(generations):
            try:
                frames = reader.feed(wrapped.read(65_536))
                answers += [wire.decode_response(12, 0, frame)[1].error_code for frame in frames]
            except ssl.SSLWantReadError:
                piece = plain.recv(65_536)
                assert piece, "the door was shut"
                received.write(piece)
    return answers


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_requests_that_come_with_the_end_of_the_handshake_are_answered_over_tls(
    kit: Kit, house: House, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """The other side reads nothing but TLS: an answer in the clear would end it."""

    async def story() -> None:
        limits = ServerLimits(max_in_flight=4)
        async with kit.open_door(tls=house.door(), limits=limits) as door:
            context = house.clients.client()
            assert await asyncio.to_thread(_hurried, door.port, context, range(20)) == list(range(20))
            door.core.react = lambda event, now: [Respond(event.token, None)]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(story())


@pytest.mark.parametrize("asked", ["requested", "required"])
async def test_clients_may_have_to_show_who_they_are(kit: Kit, house: House, asked: str) -> None:
    async with kit.open_door(tls=house.door(ssl_client_auth=asked)) as door:
        known = await door.connect(tls=house.clients.client(house.clients.keystore("alice")))
        assert await known.round_trip() == 7
        assert "CN=alice" in door.core.requests[0].peer.principal
        await _is_kept_out(door, house.clients.client(house.nodes.keystore("stranger")))
        unknown = house.clients.client()
        if asked == "required":
            await _is_kept_out(door, unknown)
        else:
            assert await (await door.connect(tls=unknown)).round_trip() == 7


async def test_the_control_listener_takes_nobody_but_nodes(kit: Kit, house: House) -> None:
    """Whoever has a client's certificate, or none, is not let in, though it believes the node."""
    async with kit.open_door(tls=house.door("CONTROL"), control=True) as door:
        node = await door.connect(tls=house.nodes.client(house.nodes.keystore("node-2")))
        assert await node.round_trip() == 7
        for shown in (None, house.clients.keystore("mallory")):
            await _is_kept_out(door, house.nodes.client(shown))
        assert len(door.core.requests) == 1


async def _is_kept_out(door: Any, context: ssl.SSLContext) -> None:
    # With TLS 1.3 a client hears of its refusal only after its own part of the handshake.
    before = len(door.core.requests)
    try:
        client = await door.connect(tls=context)
        client.heartbeats(1)
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await client.answer()
    except (ssl.SSLError, ConnectionError):
        pass
    assert len(door.core.requests) == before


class Caller:
    """A node that sends one request after the other to wherever it is told."""

    def __init__(self, port: int, tls: ssl.SSLContext | None) -> None:
        self.replies: list[Any] = []
        self.links = Links(
            node_id=2,
            client_id="node-2",
            resolve=lambda to: [("127.0.0.1", port)],
            reply=lambda token, message: self.replies.append(message),
            limits=ClientLimits(backoff_ms=5, backoff_max_ms=20),
            tls=tls,
        )

    async def ask(self, kit: Kit) -> Any:
        count = len(self.replies)
        self.links.send(Send(1, count, HeartbeatRequest("g", 5, "m" * 30_000), 0, 10_000))
        await kit.eventually(lambda: len(self.replies) > count)
        return self.replies[-1]


async def test_nodes_speak_tls_among_themselves(kit: Kit, house: House, lines: Lines) -> None:
    async with kit.open_door(tls=house.door("CONTROL"), control=True) as door:
        known = Caller(door.port, towards_nodes(house.config()))
        assert (await known.ask(kit)).error_code == 5
        assert "CN=node-1" in door.core.requests[0].peer.principal
        plain = Caller(door.port, None)
        assert await plain.ask(kit) is None
        assert any("lost node 1" in line for line in lines())
        known.links.close()
        plain.links.close()


async def test_a_node_believes_no_other_that_has_no_certificate_of_its_host(
    kit: Kit, house: House, lines: Lines
) -> None:
    elsewhere = str(house.nodes.keystore("elsewhere", "elsewhere.example"))
    key = "listener.name.control.ssl.keystore.location"
    values = {key.replace(".", "_"): elsewhere}
    async with kit.open_door(tls=house.door("CONTROL", **values), control=True) as door:
        caller = Caller(door.port, towards_nodes(house.config()))
        assert await caller.ask(kit) is None
        assert any("cannot be reached" in line and "certificate" in line.lower() for line in lines())
        careless = Caller(door.port, towards_nodes(house.config(ssl_endpoint_identification_algorithm="")))
        assert (await careless.ask(kit)).error_code == 5
        caller.links.close()
        careless.links.close()


def test_without_tls_there_are_no_contexts(house: House) -> None:
    config = parse({"node.id": "1", "log.dirs": "/data", "process.roles": "broker,controller"})
    assert of_door(config, "PLAINTEXT") is of_door(config, "CONTROL") is towards_nodes(config) is None


async def test_a_file_that_will_not_do_is_named_at_the_start(house: House, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    for changes, named in (
        ({"ssl_keystore_location": "/no/such/file"}, "ssl.keystore.location /no/such/file"),
        ({"ssl_keystore_location": str(empty)}, f"ssl.keystore.location {empty}"),
        (
            {"listener_name_control_ssl_truststore_location": str(empty)},
            f"listener.name.control.ssl.truststore.location {empty}",
        ),
    ):
        with pytest.raises(StartFailed, match=f"^{named} cannot be used: "):
            await Node(house.config(**changes)).start()


def test_a_key_may_have_a_password_and_nobody_is_asked_for_it(house: House, tmp_path: Path) -> None:
    text = house.keystore.read_bytes()
    key = serialization.load_pem_private_key(text, None)
    locked = tmp_path / "locked.pem"
    end = text.index(b"-----BEGIN CERTIFICATE")
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"sesame"),
        )
        + text[end:]
    )
    assert house.door(ssl_keystore_location=str(locked), ssl_key_password="sesame")
    for wrong in ("", "please"):
        with pytest.raises(StartFailed, match=r"^ssl.keystore.location .*locked.pem cannot be used"):
            house.door(ssl_keystore_location=str(locked), ssl_key_password=wrong)


def test_a_principal_is_written_as_kafka_does() -> None:
    subject = ((("countryName", "PL"),), (("organizationName", "Ours, Ltd"),), (("commonName", "alice"),))
    assert principal_of({"subject": subject}) == "User:CN=alice,O=Ours\\, Ltd,C=PL"
    assert principal_of({}) is principal_of(None) is None
