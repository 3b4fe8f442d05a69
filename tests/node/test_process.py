"""A node from its start to its end, with cores that do as they are told."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from epoka.log.store import StorageError
from epoka.model.events import CONTROLLER, Effect, Event, Exit, Reply, Request, Send, Stop, StorageFailed
from epoka.node import process
from epoka.node.assembly import Build, Part
from epoka.node.chores import Chore, Work
from epoka.node.config import NodeConfig, parse
from epoka.node.keys import Endpoint
from epoka.node.process import Node, StartFailed
from epoka.node.switchboard import Switchboard
from epoka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

Kit = SimpleNamespace
Lines = Callable[[], list[str]]


def settings(**changes: str) -> NodeConfig:
    values = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROL://127.0.0.1:0",
        "log.dirs": "/nowhere",
        "controlled.shutdown.max.wait.ms": "1000",
    }
    return parse(values | {name.replace("_", "."): text for name, text in changes.items()})


class Bench:
    """A node with fake cores; writes down who was put to rest how."""

    def __init__(self, kit: Kit, config: NodeConfig | None = None, board: Switchboard | None = None) -> None:
        self.broker, self.controller = kit.FakeCore(), kit.FakeCore()
        self.controller.served = {12: (0, 4)}
        self.broker.served = {3: (0, 12), 12: (0, 4)}
        self.rest: list[str] = []
        self.story: list[str] = []
        self.chores: tuple[Chore, ...] = ()
        self.addresses: dict[int, tuple[str, int]] = {}
        self.node = Node(
            config or settings(),
            switchboard=board,
            broker=self._build("broker", self.broker),
            controller=self._build("controller", self.controller),
        )

    def _build(self, name: str, core: Any) -> Build:
        def build(config: NodeConfig, endpoints: tuple[Endpoint, ...], now: int) -> Part:
            self.story.append(f"build {name}")
            return Part(
                core,
                lambda to: [self.addresses[to]] if to in self.addresses else [],
                close=lambda: self.rest.append(f"{name} closed"),
                abandon=lambda: self.rest.append(f"{name} abandoned"),
                chores=self.chores if name == "broker" else (),
            )

        return build

    def ends_when_asked(self, core: Any, *, clean: bool = True) -> None:
        def react(event: Event, now: int) -> list[Effect]:
            if isinstance(event, Stop):
                self.story.append("broker stops" if core is self.broker else "controller stops")
                return [Exit(clean, "asked to")]
            return core.answer_at_once(event, now)  # type: ignore[no-any-return]

        core.react = react

    def port(self, name: str) -> int:
        return next(endpoint.port for endpoint in self.node.endpoints if endpoint.name == name)

    async def ask(self, kit: Kit, name: str, message: Any) -> Any:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port(name))
        client = kit.Client(reader, writer)
        client.send(message)
        try:
            return (await client.answer(message.API_KEY))[1]
        finally:
            client.close()


async def test_a_node_stops_in_order_broker_first_and_ends_with_code_0(kit: Kit) -> None:
    bench = Bench(kit)
    bench.ends_when_asked(bench.broker)
    bench.ends_when_asked(bench.controller)
    await bench.node.start()
    bench.node.stop()
    ending = await bench.node.wait()
    assert (ending.code, ending.clean) == (0, True)
    assert bench.story == ["build controller", "build broker", "broker stops", "controller stops"]
    assert sorted(bench.rest) == ["broker closed", "controller closed"]


async def test_a_broker_that_goes_without_leave_ends_with_code_0_and_says_so(kit: Kit) -> None:
    bench = Bench(kit)
    bench.ends_when_asked(bench.broker, clean=False)
    bench.ends_when_asked(bench.controller)
    await bench.node.start()
    bench.node.stop()
    ending = await bench.node.wait()
    assert (ending.code, ending.clean, ending.reason) == (0, False, "broker: asked to; controller: asked to")


async def test_clients_reach_the_broker_and_nodes_reach_both_cores(kit: Kit) -> None:
    bench = Bench(kit)
    await bench.node.start()
    assert await bench.ask(kit, "PLAINTEXT", HeartbeatRequest("g", 4, "m")) == HeartbeatResponse(error_code=4)
    assert await bench.ask(kit, "CONTROL", HeartbeatRequest("g", 5, "m")) == HeartbeatResponse(error_code=5)
    (from_client,), (from_node,) = bench.broker.requests, bench.controller.requests
    assert (from_client.peer.control, from_node.peer.control) == (False, True)
    bench.node.kill()
    await bench.node.wait()


async def test_the_cores_of_one_node_talk_without_a_socket(kit: Kit) -> None:
    bench = Bench(kit)
    bench.broker.first = [Send(CONTROLLER, 7, HeartbeatRequest("g", 6, "m"), 0, 5_000)]
    await bench.node.start()
    await kit.eventually(lambda: Reply(7, HeartbeatResponse(error_code=6)) in bench.broker.events)
    bench.node.kill()
    await bench.node.wait()


async def test_two_nodes_talk_over_their_control_listeners(kit: Kit) -> None:
    controller = Bench(kit, settings(process_roles="controller", listeners="CONTROL://127.0.0.1:0"))
    await controller.node.start()
    there = f"127.0.0.1:{controller.port('CONTROL')}"
    broker = Bench(kit, settings(node_id="2", process_roles="broker", controller_connect=there))
    broker.addresses[CONTROLLER] = ("127.0.0.1", controller.port("CONTROL"))
    broker.broker.first = [Send(CONTROLLER, 7, HeartbeatRequest("g", 6, "m"), 0, 5_000)]
    await broker.node.start()
    await kit.eventually(lambda: Reply(7, HeartbeatResponse(error_code=6)) in broker.broker.events)
    assert controller.controller.requests[0].peer.client_id == "broker-2"
    for bench in (broker, controller):
        bench.node.kill()
        await bench.node.wait()


async def test_advertised_listeners_fill_in_what_is_known_only_when_bound(kit: Kit) -> None:
    config = settings(
        listeners="PLAINTEXT://:0,CONTROL://127.0.0.1:0", advertised_listeners="CONTROL://example.org:7777"
    )
    bench = Bench(kit, config)
    await bench.node.start()
    client, control = bench.node.endpoints
    assert (client.name, client.host, control) == (
        "PLAINTEXT",
        socket.gethostname(),
        Endpoint("CONTROL", "example.org", 7777),
    )
    assert client.port > 0
    bench.node.kill()
    await bench.node.wait()


async def test_a_host_that_cannot_be_one_is_named(kit: Kit) -> None:
    bench = Bench(kit, settings(listeners="PLAINTEXT://127.0.0.1:0,CONTROL://a..b:1"))
    with pytest.raises(StartFailed, match=r"^cannot listen on CONTROL://a..b:1: "):
        await bench.node.start()


async def test_a_defect_in_a_core_ends_the_node_with_code_70_and_leaves_the_disks_alone(
    kit: Kit, lines: Lines
) -> None:
    bench = Bench(kit)

    def react(event: Event, now: int) -> list[Effect]:
        raise ZeroDivisionError("oops")

    bench.broker.react = react
    await bench.node.start()
    client = kit.Client(*await asyncio.open_connection("127.0.0.1", bench.port("PLAINTEXT")))
    client.heartbeats(1)
    ending = await bench.node.wait()
    assert (ending.code, ending.reason) == (70, "ZeroDivisionError: oops")
    assert await client.closed() == b""
    assert sorted(bench.rest) == ["broker abandoned", "controller abandoned"]
    assert any("has a defect and stops" in line for line in lines())


async def test_a_defect_while_stopping_still_ends_with_code_70(kit: Kit) -> None:
    bench = Bench(kit)

    def react(event: Event, now: int) -> list[Effect]:
        raise ZeroDivisionError("oops")

    bench.broker.react = react
    await bench.node.start()
    bench.node.stop()
    assert (await bench.node.wait()).code == 70


async def test_a_core_that_ends_by_itself_takes_the_node_along(kit: Kit) -> None:
    bench = Bench(kit)
    bench.broker.first = [Exit(False, "another broker has this id")]
    await bench.node.start()
    ending = await bench.node.wait()
    assert (ending.code, ending.reason) == (1, "another broker has this id")


async def test_being_told_twice_to_stop_ends_at_once(kit: Kit) -> None:
    bench = Bench(kit)
    await bench.node.start()
    bench.node.stop()
    bench.node.stop()
    ending = await bench.node.wait()
    assert (ending.code, ending.reason) == (1, "told twice to stop")


async def test_a_core_that_never_ends_is_not_waited_for_for_ever(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epoka.node.process.STOP_GRACE_MS", 0)
    bench = Bench(kit, settings(controlled_shutdown_max_wait_ms="20"))
    await bench.node.start()
    bench.node.stop()
    ending = await bench.node.wait()
    assert (ending.code, ending.reason) == (1, "the broker did not come to its end")


async def test_a_port_that_is_taken_is_named_and_nothing_is_left_behind(kit: Kit) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        bench = Bench(kit, settings(listeners=f"CONTROL://127.0.0.1:0,PLAINTEXT://127.0.0.1:{port}"))
        with pytest.raises(StartFailed, match=f"cannot listen on PLAINTEXT://127.0.0.1:{port}: "):
            await bench.node.start()
        assert bench.story == []
        assert (await bench.node.wait()).reason == "killed"


async def test_a_core_that_cannot_be_built_closes_the_doors_again(kit: Kit) -> None:
    bench = Bench(kit)

    def build(config: NodeConfig, endpoints: tuple[Endpoint, ...], now: int) -> Part:
        raise StartFailed("/nowhere belongs to node 9, this is node 1")

    bench.node._build_broker = build
    with pytest.raises(StartFailed, match="belongs to node 9"):
        await bench.node.start()
    port = bench.port("CONTROL")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    assert bench.rest == ["controller abandoned"]


async def test_a_killed_node_hands_nothing_over(kit: Kit) -> None:
    bench = Bench(kit)
    await bench.node.start()
    client = kit.Client(*await asyncio.open_connection("127.0.0.1", bench.port("PLAINTEXT")))
    assert await client.round_trip() == 7
    bench.node.kill()
    assert await client.closed() == b""
    await bench.node.wait()
    assert Stop() not in bench.broker.events
    assert sorted(bench.rest) == ["broker abandoned", "controller abandoned"]


async def test_a_disk_that_fails_in_a_chore_or_at_the_end_is_told(kit: Kit, lines: Lines) -> None:
    def work(now: int) -> Work:
        raise StorageError("no space left")
        yield None

    bench = Bench(kit)
    bench.chores = (Chore("retention", 1, work),)
    bench.ends_when_asked(bench.broker)
    bench.ends_when_asked(bench.controller)
    await bench.node.start()
    await kit.eventually(lambda: StorageFailed("no space left") in bench.broker.events)

    class Failing(list[str]):
        def append(self, line: str) -> None:
            raise StorageError("flush failed")

    bench.rest = Failing()
    bench.node.stop()
    ending = await bench.node.wait()
    assert (ending.code, ending.reason) == (1, "the disk failed at the end: flush failed")


async def test_a_disk_that_fails_under_a_request_hangs_up_and_the_core_hears_of_it(
    kit: Kit, lines: Lines
) -> None:
    bench = Bench(kit)

    def react(event: Event, now: int) -> list[Effect]:
        if isinstance(event, Request) and event.message.generation_id == 1:
            raise StorageError("bad sector")
        return bench.broker.answer_at_once(event, now)  # type: ignore[no-any-return]

    bench.broker.react = react
    await bench.node.start()
    client = kit.Client(*await asyncio.open_connection("127.0.0.1", bench.port("PLAINTEXT")))
    client.heartbeats(1)
    assert await client.closed() == b""
    assert StorageFailed("bad sector") in bench.broker.events
    assert await bench.ask(kit, "PLAINTEXT", HeartbeatRequest("g", 2, "m")) == HeartbeatResponse(error_code=2)
    bench.node.kill()
    await bench.node.wait()


async def test_nodes_of_one_process_may_share_a_switchboard(kit: Kit) -> None:
    board = Switchboard()
    controller = Bench(kit, settings(process_roles="controller", listeners="CONTROL://127.0.0.1:0"), board)
    await controller.node.start()
    broker = Bench(kit, settings(node_id="2", process_roles="broker", controller_connect="x:1"), board)
    broker.broker.first = [Send(CONTROLLER, 7, HeartbeatRequest("g", 6, "m"), 0, 5_000)]
    await broker.node.start()
    await kit.eventually(lambda: Reply(7, HeartbeatResponse(error_code=6)) in broker.broker.events)
    controller.node.kill()
    await controller.node.wait()
    broker.broker.events.clear()
    broker.node._driven[0].runtime.handle(kit.Nudge([Send(CONTROLLER, 8, HeartbeatRequest(), 0, 5_000)]))
    await kit.eventually(lambda: Reply(8, None) in broker.broker.events)
    broker.node.kill()
    await broker.node.wait()


PROGRAM = textwrap.dedent(
    """
    import sys
    from epoka.model.events import Exit, Request, Respond, Stop
    from epoka.node.assembly import Part
    from epoka.node.config import parse
    from epoka.node.process import run
    from epoka.wire.messages.heartbeat import HeartbeatResponse

    class Core:
        served = {12: (0, 4)}
        deadline = None
        def start(self, now):
            return []
        def handle(self, event, now):
            if isinstance(event, Stop):
                return [Exit(True, "asked to")]
            if isinstance(event, Request):
                return [Respond(event.token, HeartbeatResponse(error_code=1 // event.message.generation_id))]
            return []

    def build(config, endpoints, now):
        return Part(Core(), lambda to: [], close=lambda: None, abandon=lambda: None)

    config = parse({"node.id": "3", "process.roles": "controller", "log.dirs": "/nowhere",
                    "listeners": "CONTROL://127.0.0.1:0"})
    def started(node):
        print(node.endpoints[0].port, flush=True)
    sys.exit(run(config, on_start=started, controller=build))
    """
)


class Program:
    """The program above, running."""

    def __enter__(self) -> Program:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        return self

    def end(self) -> tuple[int, list[str]]:
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors.splitlines()

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_process_in_order(number: int) -> None:
    with Program() as program:
        os.kill(program.process.pid, number)
        code, lines = program.end()
    assert code == 0
    first, last = lines
    assert first.split()[1:3] == ["INFO", "node=3"] and "started as controller on CONTROL://" in first
    assert last.endswith("INFO node=3 ended: controller: asked to")
    assert "\x1b" not in first and first[10] == "T" and first.split()[0].endswith("Z")


async def test_a_defect_ends_the_process_with_code_70_and_a_story(kit: Kit) -> None:
    with Program() as program:
        client = kit.Client(*await asyncio.open_connection("127.0.0.1", program.port))
        assert await client.round_trip(1) == 1
        client.heartbeats(0)
        assert await client.closed() == b""
        code, lines = await asyncio.to_thread(program.end)
    assert code == 70
    story = next(line for line in lines if "CRITICAL" in line)
    assert "ZeroDivisionError" in story and "Request HeartbeatRequest 2" in story


@pytest.mark.parametrize("content", ["node.id=1\nno.such.key=1\n", None])
def test_a_bad_configuration_ends_with_code_2_and_names_the_file(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "node.properties"
    if content is not None:
        file.write_text(content)
    done = subprocess.run(
        [sys.executable, "-m", "epoka.node.process", "--config", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert str(file) in done.stderr and "Traceback" not in done.stderr


def test_a_system_that_allows_no_more_files_does_not_keep_a_node_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> None:
        # As macOS does, whose hard limit is infinite while the kernel has another one.
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    process._allow_many_files(2000)
