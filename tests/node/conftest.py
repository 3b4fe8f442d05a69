"""A core without a mind of its own, doors on loopback, and waiting for conditions."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from epoka.model.events import Effect, Event, Request, Respond, Send
from epoka.node.runtime import Ending, Runtime, report_nowhere
from epoka.node.server import Listener, ServerLimits
from epoka.wire import frame as wire
from epoka.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from epoka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from epoka.wire.messages.metadata import MetadataRequest, MetadataResponse

PATIENCE_S = 10.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run coroutine tests on a loop of their own, the kind that nodes use."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    async def timed() -> None:
        async with asyncio.timeout(60):
            await pyfuncitem.obj(**arguments)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(timed())
    return True


class Nudge:
    """An event that makes the fake core ask for these effects and nothing else."""

    def __init__(self, effects: list[Effect]) -> None:
        self.effects = effects


class FakeCore:
    """Remembers every event; answers a request with the same kind of message unless it is told otherwise."""

    def __init__(self) -> None:
        self.served = {0: (3, 11), 1: (4, 17), 3: (0, 12), 12: (0, 4), 18: (0, 3)}
        self.events: list[Event] = []
        self.deadline: int | None = None
        self.react: Callable[[Event, int], list[Effect]] = self.answer_at_once
        self.first: list[Effect] = []

    def start(self, now: int) -> list[Effect]:
        return self.first

    def handle(self, event: Event, now: int) -> list[Effect]:
        if isinstance(event, Nudge):
            return event.effects
        self.events.append(event)
        return self.react(event, now)

    @property
    def requests(self) -> list[Request]:
        return [event for event in self.events if isinstance(event, Request)]

    @staticmethod
    def answer_at_once(event: Event, now: int) -> list[Effect]:
        return [Respond(event.token, reply_to(event))] if isinstance(event, Request) else []

    @staticmethod
    def answer_later(event: Event, now: int) -> list[Effect]:
        return []


def reply_to(request: Request) -> Any:
    message = request.message
    if isinstance(message, HeartbeatRequest):
        # The generation comes back as the error code, so that a test can tell the answers apart.
        return HeartbeatResponse(error_code=message.generation_id)
    if isinstance(message, ApiVersionsRequest):
        return ApiVersionsResponse()
    if isinstance(message, MetadataRequest):
        return MetadataResponse(cluster_id="c" * 30_000)
    raise AssertionError(message)


class NoCarrier:
    def send(self, runtime: Runtime, send: Send) -> None:
        raise AssertionError(f"nobody carries {send}")


def new_runtime(core: Any, **changes: Any) -> Runtime:
    endings: list[Ending] = []
    settings: dict[str, Any] = {
        "node_id": 1,
        "carrier": NoCarrier(),
        "report": report_nowhere,
        "on_end": endings.append,
    }
    return Runtime(core, **(settings | changes))


class Client:
    """A raw peer: sends bytes, reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(
        self, *messages: Any, version: int = 0, first_id: int = 0, client_id: str | None = "test"
    ) -> None:
        for number, message in enumerate(messages, start=first_id):
            parts = wire.encode_request(message.API_KEY, version, number, client_id, message)
            self.writer.write(b"".join(parts))

    def heartbeats(self, *generations: int, first_id: int = 0) -> None:
        self.send(*(HeartbeatRequest("g", number, "m") for number in generations), first_id=first_id)

    async def frame(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def answer(self, api_key: int = 12, version: int = 0) -> tuple[int, Any]:
        return wire.decode_response(api_key, version, await self.frame())

    async def round_trip(self, generation: int = 7) -> int:
        self.heartbeats(generation)
        _, message = await self.answer()
        return int(message.error_code)

    async def closed(self) -> bytes:
        """Wait until the other side closes; returns what came before."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    def close(self) -> None:
        self.writer.close()


class Door:
    """A listener with a fake core behind it."""

    def __init__(self, core: FakeCore, runtime: Runtime, listener: Listener, port: int) -> None:
        self.core = core
        self.runtime = runtime
        self.listener = listener
        self.port = port
        self._clients: list[Client] = []

    async def connect(self, limit: int = 2**20, tls: ssl.SSLContext | None = None) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=limit, ssl=tls)
        client = Client(reader, writer)
        self._clients.append(client)
        return client

    def respond(self, request: Request, message: Any = ...) -> None:
        """Let the core answer a request that it has kept waiting."""
        effect = Respond(request.token, reply_to(request) if message is ... else message)
        self.runtime.handle(Nudge([effect]))  # type: ignore[arg-type]

    def hang_up_all(self) -> None:
        for client in self._clients:
            client.writer.transport.abort()


@contextlib.asynccontextmanager
async def open_door(
    core: FakeCore | None = None,
    *,
    control: bool = False,
    limits: ServerLimits | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Door]:
    core = core or FakeCore()
    runtime = new_runtime(core)
    listener = Listener((), control=control, limits=limits, tls=tls)
    _, port = await listener.bind("127.0.0.1", 0)
    await listener.serve([runtime])
    door = Door(core, runtime, listener, port)
    try:
        yield door
    finally:
        door.hang_up_all()
        await listener.close(grace_s=0.1)
        runtime.close()


async def eventually(condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> None:
    """Wait until `condition` holds; the test fails when it does not come to that."""
    deadline = asyncio.get_running_loop().time() + patience_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it never came to that"
        await asyncio.sleep(0.001)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """The lines of the log so far, warnings and worse."""
    caplog.set_level("INFO")
    yield lambda: [record.getMessage() for record in caplog.records if record.levelname != "INFO"]


@pytest.fixture
def kit() -> SimpleNamespace:
    """What the tests of this folder share."""
    things = (Nudge, FakeCore, Client, Door, open_door, eventually, new_runtime, reply_to, NoCarrier)
    return SimpleNamespace(**{thing.__name__: thing for thing in things})
