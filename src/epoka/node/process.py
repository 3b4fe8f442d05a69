"""One node as a process: binds the doors, builds the cores, drives them, and ends as the cores say.

A stop (SIGINT, SIGTERM) is an event for the cores: the broker hands over what it leads and says when it is
done, then the controller. Only a second signal, or a core that never comes to its end, cuts this short.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

from epoka.log.store import StorageError
from epoka.model.events import CONTROLLER, Stop, StorageFailed
from epoka.model.ledger import LedgerEvent
from epoka.node.assembly import Build, Part, build_broker, build_controller
from epoka.node.chores import Chores
from epoka.node.client import ClientLimits, Links
from epoka.node.config import ConfigError, NodeConfig, load
from epoka.node.keys import CONTROL_LISTENER, WILDCARD_HOSTS, Endpoint, split_address
from epoka.node.lines import write_lines
from epoka.node.metrics import Figures
from epoka.node.metrics_door import MetricsDoor
from epoka.node.runtime import EXIT_BUG, EXIT_CLEAN, EXIT_FAILED, Clock, Ending, Runtime, report_nowhere
from epoka.node.runtime import StartFailed as StartFailed
from epoka.node.server import Listener, ServerLimits
from epoka.node.switchboard import Gate, Switchboard, open_gate
from epoka.node.tls import of_door, towards_nodes

log = logging.getLogger(__name__)

EXIT_USAGE = 2
STOP_GRACE_MS = 10_000
"""How much longer than `controlled.shutdown.max.wait.ms` a core may take to come to its end."""


class _Driven:
    """A core of this node with everything that drives it."""

    def __init__(self, part: Part, runtime: Runtime, links: Links, chores: Chores) -> None:
        self.part = part
        self.runtime = runtime
        self.links = links
        self.chores = chores
        self.ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._at_rest = False

    def put_to_rest(self, *, in_order: bool) -> None:
        """Stop driving and let the disks go; in order, or as a crash would. StorageError if order fails."""
        if self._at_rest:
            return
        self._at_rest = True
        self.chores.close()
        self.runtime.close()
        self.links.close()
        if in_order:
            self.part.close()
        else:
            self.part.abandon()


class _Voice:
    """How another thread reaches a runtime: through its event loop, as long as there is one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()

    def event(self, event: Any) -> None:
        self._soon(self._runtime.handle, event)

    def end(self, reason: str) -> None:
        self._soon(self._runtime.give_up, reason)

    def crash(self, error: Exception) -> None:
        self._soon(self._runtime.crash, error)

    def _soon(self, call: Callable[..., None], argument: Any) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, argument)


class Node:
    """A broker, a controller, or both, from binding to the end. Many may live in one process."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        switchboard: Switchboard | None = None,
        report: Callable[[LedgerEvent], None] = report_nowhere,
        clock: Clock | None = None,
        broker: Build = build_broker,
        controller: Build = build_controller,
    ) -> None:
        self.config = config
        self.endpoints: tuple[Endpoint, ...] = ()
        """Where others are told to find this node, once it is bound."""
        self.metrics_address: tuple[str, int] | None = None
        """Where metrics are served, if they are."""
        self.switchboard = switchboard or Switchboard()
        self._report = report
        self._clock = clock or Clock()
        self._build_broker = broker
        self._build_controller = controller
        self._listeners: dict[str, Listener] = {}
        self._figures = Figures(config.node_id)
        self._metrics: MetricsDoor | None = None
        self._driven: list[_Driven] = []
        self._stopping = False
        self._finished: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    @property
    def cores(self) -> tuple[Any, ...]:
        """The cores of this node, the controller's first."""
        return tuple(each.part.core for each in self._driven)

    @property
    def controller_id(self) -> int | None:
        """Who the controller is, as the ensemble tells it; None where there is none to tell."""
        for driven in self._driven:
            if driven.part.ties is not None and driven.part.ties.controller is not None:
                return driven.part.ties.controller.id
        return None

    async def start(self) -> None:
        """Bind, build, begin, serve; StartFailed when the world does not allow it."""
        config = self.config
        try:
            await self._bind()
            now = self._clock.now()
            if config.is_controller:
                self._drive("controller", self._build_controller(config, self.endpoints, now), CONTROLLER)
            if config.is_broker:
                self._drive("broker", self._build_broker(config, self.endpoints, now), config.node_id)
            for driven in self._driven:
                driven.runtime.start()
                driven.chores.start()
                if driven.part.ties is not None:
                    driven.part.ties.start(_Voice(driven.runtime))
            runtimes = [each.runtime for each in self._driven]
            for name, listener in self._listeners.items():
                # Clients only ever speak to the broker; the controller has no door but the control listener.
                behind = runtimes if name == CONTROL_LISTENER else runtimes[-1:]
                await listener.serve(behind)
            await self._serve_metrics()
        except BaseException:
            self.kill()
            raise

    async def _serve_metrics(self) -> None:
        wanted = self.config.string("epoka.metrics.listener")
        if not wanted:
            return
        host, port = split_address(wanted, lowest_port=0)
        door = MetricsDoor(lambda: self._figures.collect(self.cores, self._listeners.values()))
        try:
            self.metrics_address = await door.open(host, port)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StartFailed(f"cannot serve metrics on {wanted}: {reason}") from error
        self._metrics = door
        at = ":".join(map(str, self.metrics_address))
        log.info("metrics on http://%s/metrics", at, extra={"node": self.config.node_id})

    def _told(self, event: LedgerEvent) -> None:
        self._figures.count(event)
        self._report(event)

    def stop(self) -> None:
        """Ask for a controlled shutdown; asked again, end at once."""
        if self._stopping:
            self._finish(Ending(EXIT_FAILED, False, "told twice to stop"))
            return
        self._stopping = True
        asyncio.get_running_loop().create_task(self._stop_in_order())

    def kill(self) -> None:
        """End as a crash would: nothing is handed over, nothing is put in order on disk."""
        if self._metrics is not None:
            self._metrics.close()
        for listener in self._listeners.values():
            listener.abort()
        for driven in self._driven:
            driven.put_to_rest(in_order=False)
            self.switchboard.leave(driven.runtime)
        self._finish(Ending(EXIT_FAILED, False, "killed"))

    def pause(self) -> None:
        """Stand still, as a process that got SIGSTOP; many nodes in one process need it."""
        for driven in self._driven:
            driven.runtime.pause()

    def resume(self) -> None:
        """Go on after a pause."""
        for driven in self._driven:
            driven.runtime.resume()

    async def wait(self) -> Ending:
        """Until the node has come to its end, in order or not; everything is closed then."""
        ending = await asyncio.shield(self._finished)
        if self._metrics is not None:
            self._metrics.close()
        for listener in self._listeners.values():
            await listener.close()
        for driven in self._driven:
            try:
                # After a defect of ours nothing that a core believes may be written down as true.
                driven.put_to_rest(in_order=ending.code != EXIT_BUG)
            except StorageError as error:
                log.error("the disk failed at the end: %s", error, extra={"node": self.config.node_id})
                ending = Ending(EXIT_FAILED, False, f"the disk failed at the end: {error}")
            self.switchboard.leave(driven.runtime)
        return ending

    async def _bind(self) -> None:
        config = self.config
        advertised = {endpoint.name: endpoint for endpoint in config.advertised_listeners}
        endpoints = []
        for endpoint in config.listeners:
            control = endpoint.name == CONTROL_LISTENER
            tls = of_door(config, endpoint.name)
            listener = Listener(
                (), control=control, limits=server_limits(config), name=endpoint.name, tls=tls
            )
            try:
                _, port = await listener.bind(endpoint.host, endpoint.port)
            except (OSError, UnicodeError) as error:
                reason = getattr(error, "strerror", None) or error
                raise StartFailed(f"cannot listen on {endpoint}: {reason}") from error
            self._listeners[endpoint.name] = listener
            told = advertised.get(endpoint.name, endpoint)
            host = socket.gethostname() if told.host in WILDCARD_HOSTS else told.host
            endpoints.append(Endpoint(endpoint.name, host, told.port or port))
        self.endpoints = tuple(endpoints)

    def _drive(self, name: str, part: Part, address: int) -> None:
        config = self.config

        def reply(token: int, message: Any | None) -> None:
            self.switchboard.returned(runtime, token, message)

        def ended(ending: Ending) -> None:
            if not driven.ended.done():
                driven.ended.set_result(ending)
            if not self._stopping or ending.code not in (EXIT_CLEAN, EXIT_FAILED):
                self._finish(ending)

        runtime = Runtime(
            part.core,
            node_id=config.node_id,
            carrier=self.switchboard,
            report=self._told,
            on_end=ended,
            clock=self._clock,
            coordinate=None if part.ties is None else part.ties.perform,
            name=name,
        )
        links = Links(
            node_id=config.node_id,
            client_id=f"{name}-{config.node_id}",
            resolve=part.resolve,
            reply=reply,
            limits=client_limits(config),
            tls=towards_nodes(config),
        )
        chores = Chores(
            part.chores,
            now=self._clock.now,
            storage_failed=lambda reason: runtime.handle(StorageFailed(reason)),
            broken=runtime.crash,
        )
        driven = _Driven(part, runtime, links, chores)
        self.switchboard.join(address, runtime)
        self.switchboard.connect(runtime, links.send)
        self._driven.append(driven)

    async def _stop_in_order(self) -> None:
        # The broker asks the controller's leave to go, so the controller is the last to leave.
        grace_s = (self.config.integer("controlled.shutdown.max.wait.ms") + STOP_GRACE_MS) / 1000
        clean = True
        reasons = []
        for driven in reversed(self._driven):
            driven.runtime.handle(Stop())
            done, _ = await asyncio.wait([driven.ended], timeout=grace_s)
            if not done:
                self._finish(Ending(EXIT_FAILED, False, f"the {driven.runtime.name} did not come to its end"))
                return
            ending = driven.ended.result()
            clean = clean and ending.clean
            reasons.append(f"{driven.runtime.name}: {ending.reason}")
        self._finish(Ending(EXIT_CLEAN, clean, "; ".join(reasons)))

    def _finish(self, ending: Ending) -> None:
        if not self._finished.done():
            self._finished.set_result(ending)


def server_limits(config: NodeConfig) -> ServerLimits:
    """What the configuration says about the doors."""
    return ServerLimits(
        max_frame_bytes=config.integer("socket.request.max.bytes"),
        max_connections=config.integer("max.connections"),
        max_connections_per_ip=config.integer("max.connections.per.ip"),
        max_in_flight=config.integer("max.in.flight.requests.per.connection"),
        max_queued_bytes=config.integer("queued.max.request.bytes"),
        max_unread_bytes=config.integer("queued.max.response.bytes"),
        max_idle_ms=config.integer("connections.max.idle.ms"),
    )


def client_limits(config: NodeConfig) -> ClientLimits:
    """What the configuration says about connections to other nodes."""
    return ClientLimits(
        backoff_ms=config.integer("reconnect.backoff.ms"),
        backoff_max_ms=config.integer("reconnect.backoff.max.ms"),
        connect_timeout_ms=config.integer("socket.connection.setup.timeout.ms"),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The node of one configuration file, as a process."""
    parser = argparse.ArgumentParser(prog="python -m epoka.node.process", description=main.__doc__)
    parser.add_argument("--config", required=True, metavar="FILE", help="a .properties file")
    try:
        config = load(parser.parse_args(arguments).config)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_USAGE
    return run(config)


def run(
    config: NodeConfig,
    *,
    report: Callable[[LedgerEvent], None] = report_nowhere,
    on_start: Callable[[Node], None] | None = None,
    gate: Gate = open_gate,
    broker: Build = build_broker,
    controller: Build = build_controller,
) -> int:
    """Run a node until it ends or is told to; returns the exit code of the process."""
    write_lines(config.node_id)
    _allow_many_files(config.integer("max.connections"))
    with asyncio.Runner(loop_factory=new_loop) as runner:

        def new_node() -> Node:
            switchboard = Switchboard(gate)
            return Node(config, switchboard=switchboard, report=report, broker=broker, controller=controller)

        return runner.run(_run(new_node, on_start))


async def _run(new_node: Callable[[], Node], on_start: Callable[[Node], None] | None) -> int:
    loop = asyncio.get_running_loop()
    node = new_node()
    try:
        await node.start()
    except StartFailed as error:
        log.error("the node cannot start: %s", error)
        return EXIT_FAILED
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, node.stop)
    doors = ", ".join(str(endpoint) for endpoint in node.endpoints)
    log.info("started as %s on %s", " and ".join(node.config.strings("process.roles")), doors)
    # What exists now lives as long as the process; the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    if on_start is not None:
        on_start(node)
    ending = await node.wait()
    log.log(logging.INFO if ending.code == EXIT_CLEAN else logging.ERROR, "ended: %s", ending.reason)
    return ending.code


def new_loop() -> asyncio.AbstractEventLoop:
    """The fastest event loop there is here."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _allow_many_files(connections: int) -> None:
    """Connections and segments are open files; take as many as the system allows this process to."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(connections + 1024, 65_536)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            # On macOS the hard limit may be infinite, and the kernel has one of its own.
            log.warning("no more than %d files can be open at a time: %s", soft, error)


if __name__ == "__main__":
    sys.exit(main())
