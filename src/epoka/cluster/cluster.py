"""A whole cluster on this machine, to be used, bounced, cut apart and looked at.

    with epoka.Cluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        old, new = cluster.bounce(2, how="unclean")

In one process by default, with a real process a node if asked for; in zookeeper mode always with processes,
with an ensemble of its own and as many controllers that stand by as wanted. Every verb returns when what it
says is true: `bounce` when the broker is back and unfenced, `pause` when it stands still.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epoka.client.connection import Connection
from epoka.client.errors import ClientError
from epoka.cluster import fault_ledger
from epoka.cluster.ensemble import Ensemble, trouble
from epoka.cluster.errors import BadCluster, ClusterError, NodeFailed
from epoka.cluster.fault_ledger import FaultLedger
from epoka.cluster.faults import Faulty, Hold, letting_go, with_cuts, with_hold, without_hold
from epoka.cluster.layout import Layout, as_before, plan
from epoka.cluster.nodes import PAUSED, RUNNING, Nodes
from epoka.cluster.ports import HOST
from epoka.cluster.status import ClusterStatus, cluster_status
from epoka.cluster.watching import Watcher
from epoka.ledger import file as ledger_file
from epoka.model.image import ClusterImage
from epoka.model.ledger import LedgerEvent
from epoka.wire.apis import api as find_api
from epoka.wire.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from epoka.coordination.zookeeper.server import ZooKeeperServer

HOWS = ("clean", "unclean", "fast", "wiped")
A_BOUNCE = {"unclean": "an unclean", "fast": "a fast", "wiped": "a wiped"}
READY_TIMEOUT_S = 120.0
TAKEOVER_TIMEOUT_S = 30.0
LOOK_AGAIN_S = 0.005
METADATA_VERSION = 12


class HeldMessages:
    """Messages that a cluster holds back until they are released, at the latest by the end of a `with`."""

    def __init__(self, cluster: Cluster, hold: Hold) -> None:
        self._cluster = cluster
        self._hold = hold

    @property
    def count(self) -> int:
        """How many messages were stopped so far."""
        return self._cluster._nodes.held(self._hold.id)

    def wait(self, count: int = 1, timeout_s: float = 30.0) -> None:
        """Until so many messages are held; ClusterError when the time is up."""
        what = f"{count} {self._hold.api} to be held"
        _wait(lambda: self.count >= count, time.monotonic() + timeout_s, what)

    def let_go(self, count: int = 1) -> None:
        """Let the first of them go, so many from each node, and hold the rest and what comes."""
        self._cluster._set_faults(letting_go(self._cluster._faults, self._hold.id, count))

    def release(self) -> None:
        """Let them go, in their order, and hold no more."""
        self._cluster._set_faults(without_hold(self._cluster._faults, self._hold.id))

    def __enter__(self) -> HeldMessages:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Cluster:
    """Brokers 1 to `brokers` and their controller, or in zookeeper mode controllers."""

    def __init__(
        self,
        brokers: int | None = None,
        mode: str | None = None,
        level: str | None = None,
        processes: bool | None = None,
        config: Mapping[str, Any] | None = None,
        data: Path | str | None = None,
        port: int = 0,
        controllers: int | None = None,
        zookeepers: int | None = None,
    ) -> None:
        """What is not said is as in the cluster in `data`, or else 3 brokers, log mode and one of all others.

        `zookeepers` nodes are started, 1, 3 or 5, unless `config` has `zookeeper.connect`.
        """
        self._ensemble = Ensemble(zookeepers)
        settings = dict(config or {})
        self._chosen = partial(as_before, data, brokers, mode, controllers, settings)
        self._plan = partial(
            plan,
            level=level,
            config=settings,
            data=data,
            port=port,
            ensemble=self._ensemble.start,
        )
        self._processes = processes
        self._check_processes(mode)
        self._layout: Layout | None = None
        self._started: Nodes | None = None
        self._watcher: Watcher | None = None
        self._faults = Faulty()
        self._fault_ledger: FaultLedger
        self._holds = 0
        self._verbs = threading.RLock()

    def __enter__(self) -> Cluster:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> Cluster:
        """Start every node and wait until every broker serves."""
        with self._verbs:
            if self._layout is not None:
                raise BadCluster("the cluster is running already")
            brokers, mode, controllers = self._chosen()
            self._check_processes(mode)
            processes = mode == "zookeeper" if self._processes is None else self._processes
            try:
                layout = self._layout = self._plan(brokers=brokers, mode=mode, controllers=controllers)
            except BaseException:
                self._ensemble.stop()
                raise
            # One for all verbs: two of them in the same millisecond are two events.
            self._fault_ledger = FaultLedger(layout.data)
            self._fault_ledger.begin()
            try:
                self._started = _new_nodes(processes, layout)
                self._watcher = Watcher(*((p.id, HOST, p.control_port) for p in layout.controllers.values()))
                for place in layout.places:
                    self._nodes.begin(place)
                for place in layout.places:
                    self._nodes.wait_listening(place.id)
                self._wait_serving(tuple(layout.brokers))
            except BaseException:
                self._tear_down()
                raise
        return self

    def close(self) -> None:
        """A controlled shutdown of everything; what does not obey is killed and reported as NodeFailed."""
        with self._verbs:
            if self._layout is None:
                return
            failures: list[NodeFailed] = []
            try:
                try:
                    self._set_faults(Faulty())
                except NodeFailed as failure:
                    # One that does not answer is no reason to kill the others.
                    failures.append(failure)
                controllers = list(self._layout.controllers)
                alive = [each for each in controllers if self._nodes.state(each) in (RUNNING, PAUSED)]
                # Without a controller nobody can let the brokers go, and nobody will miss their records.
                if not self._layout.temporary or alive:
                    for controller in alive:
                        self._wake(controller)
                    failures += self._stop_all(list(self._layout.brokers))
                    failures += self._stop_all(controllers)
            finally:
                self._tear_down()
            if failures:
                raise failures[0]

    def abandon(self) -> None:
        """Kill everything, in no order; no effect on a cluster that does not run."""
        self._tear_down()

    # What it is.

    @property
    def is_open(self) -> bool:
        """Whether the nodes were started and not yet stopped as a whole."""
        return self._layout is not None

    @property
    def bootstrap(self) -> str:
        """What a client is given as `bootstrap.servers`."""
        return self.layout.bootstrap

    @property
    def layout(self) -> Layout:
        """Where everything is."""
        if self._layout is None:
            raise BadCluster("the cluster is not running")
        return self._layout

    @property
    def data(self) -> Path:
        return self.layout.data

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(self.layout.brokers)

    @property
    def controller_id(self) -> int:
        """The controller; in zookeeper mode the one that answered last."""
        first = self.layout.controller.id
        return first if self._watcher is None else self._watcher.controller

    @property
    def controller_ids(self) -> tuple[int, ...]:
        """Everybody who is the controller or stands by."""
        return tuple(self.layout.controllers)

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(place.id for place in self.layout.places)

    @property
    def zookeeper(self) -> ZooKeeperServer:
        """The ensemble that was started with the cluster, to kill and restart its nodes."""
        if self._ensemble.server is None:
            raise BadCluster("this cluster has started no ensemble")
        return self._ensemble.server

    def status(self) -> ClusterStatus:
        """What the controller knows now; ClusterError when it does not answer."""
        with self._verbs:
            layout = self.layout
            image = self.image()
            return cluster_status(
                image,
                cluster_id=layout.cluster_id,
                mode=layout.mode,
                controller=self.controller_id,
                expected=tuple(layout.brokers),
                nodes={id_: (self._nodes.state(id_), self._nodes.pid(id_)) for id_ in layout.brokers},
                problem=trouble(layout.zookeeper) if layout.zookeeper else None,
            )

    def image(self) -> ClusterImage:
        """The controller's metadata, up to its present end; where controllers stand by, the next one's."""
        with self._verbs:
            if self._watcher is None:
                raise BadCluster("the cluster is not running")
            deadline = time.monotonic() + (TAKEOVER_TIMEOUT_S if self._has_standby() else 0)
            while True:
                try:
                    return self._watcher.refresh()
                except ClientError as error:
                    connect = self.layout.zookeeper
                    why = trouble(connect) if connect else None
                    if why is not None or time.monotonic() >= deadline:
                        reason = why or f"the controller does not answer: {error}"
                        raise ClusterError(reason) from error
                time.sleep(LOOK_AGAIN_S)

    def _has_standby(self) -> bool:
        """Whether somebody who runs may become the controller."""
        states = [self._nodes.state(each) for each in self.controller_ids]
        return bool(self.layout.zookeeper) and RUNNING in states

    def state(self, node_id: int) -> str:
        """`running`, `paused`, `stopped`, or `failed` for a node that ended without being told to."""
        self.layout.place(node_id)
        return self._nodes.state(node_id)

    def pid(self, node_id: int) -> int | None:
        """The process of a node; in one process, this one."""
        self.layout.place(node_id)
        return self._nodes.pid(node_id)

    def check(self, node_id: int | None = None) -> None:
        """NodeFailed when the node, or any, has ended by itself."""
        for each in self.node_ids if node_id is None else (node_id,):
            self._nodes.check(each)

    def generation(self, broker_id: int) -> int:
        """The generation of the broker's registration, -1 if it has none."""
        known = self.image().broker(broker_id)
        return -1 if known is None else known.epoch

    def ledger(self) -> list[LedgerEvent]:
        """What all nodes have reported, in the order of time."""
        with self._verbs:
            layout = self.layout
            self._nodes.flush_ledgers()
            events: list[LedgerEvent] = []
            for place in layout.places:
                events.extend(ledger_file.read(place.ledger_path))
            events.extend(ledger_file.read(layout.data / fault_ledger.FILE_NAME))
        return sorted(events, key=lambda event: (event.time_ms, event.node, event.event_id))

    # What can be done to it.

    def bounce(self, broker_id: int, how: str = "clean") -> tuple[int, int]:
        """End a broker and start it again; returns its generation before and after.

        clean: a controlled shutdown. unclean: killed, and started when the controller has noticed. fast:
        killed and started at once, before anybody has noticed. wiped: as unclean, and the disk is empty.
        """
        if how not in HOWS:
            raise BadCluster(f"a broker bounces {', '.join(HOWS)}, not {how!r}")
        with self._verbs:
            self._broker(broker_id)
            old = self.generation(broker_id)
            if how == "clean":
                self.stop(broker_id)
            else:
                self._tell("kill", broker_id, f"killed {{}} for {A_BOUNCE[how]} bounce")
                self._nodes.kill(broker_id)
                if how in ("unclean", "wiped"):
                    self._wait_fenced(broker_id)
            if how == "wiped":
                self.layout.wipe(broker_id)
            self._start(broker_id)
            return old, self.generation(broker_id)

    def start(self, node_id: int) -> None:
        """Start a node that does not run; a broker is unfenced and serves when this returns."""
        with self._verbs:
            place = self.layout.place(node_id)
            if self._runs(node_id):
                raise BadCluster(f"{place.name} is running already")
            self._tell("start", node_id, "started {}", undone=True)
            self._start(node_id)

    def _start(self, node_id: int) -> None:
        with self._verbs:
            place = self.layout.place(node_id)
            before = -1
            if place.role == "broker":
                with contextlib.suppress(ClusterError):
                    before = self.generation(node_id)
            self.begin(node_id)
            if place.role == "broker":
                self._wait_serving((node_id,), newer_than=before)
            else:
                answers = "the controller to answer"
                self._wait_image(lambda image: image.offset >= 0, answers, watch=(node_id,))

    def begin(self, node_id: int) -> None:
        """Start a node that does not run and return as soon as it listens: nobody may know of it yet."""
        with self._verbs:
            place = self.layout.place(node_id)
            self._nodes.begin(place)
            self._nodes.wait_listening(node_id)

    def stop(self, node_id: int) -> None:
        """A controlled shutdown of one node."""
        with self._verbs:
            self._check_runs(node_id)
            self._tell("stop", node_id, "stopped {} in order")
            self._nodes.ask_to_stop(node_id)
            self._nodes.wait_stopped(node_id)

    def kill(self, node_id: int) -> None:
        """End a node without warning, as kill -9 does."""
        with self._verbs:
            if self._runs(node_id):
                self._tell("kill", node_id, "killed {}")
                self._nodes.kill(node_id)

    def wipe(self, node_id: int) -> None:
        """Empty the disk of a node that does not run."""
        with self._verbs:
            place = self.layout.place(node_id)
            if self._runs(node_id):
                raise BadCluster(f"{place.name} is running; a disk is only wiped when nobody uses it")
            self.layout.wipe(node_id)
            self._tell("wipe", node_id, "emptied the disk of {}")
            if place.role == "controller" and self._watcher is not None:
                self._watcher.begin_anew()

    def pause(self, node_id: int) -> None:
        """Stop a node's time, as SIGSTOP does."""
        with self._verbs:
            self._check_runs(node_id)
            self._tell("pause", node_id, "paused {}")
            self._nodes.pause(node_id)

    def resume(self, node_id: int) -> None:
        """Let a paused node go on."""
        with self._verbs:
            self._check_runs(node_id)
            if self.state(node_id) == PAUSED:
                self._tell("resume", node_id, "let {} go on", undone=True)
                self._nodes.resume(node_id)

    def isolate(self, node_id: int, from_: str | int | Iterable[int] | None = None) -> None:
        """Cut a node off from others, both ways: from `"controller"`, `"brokers"`, from ids, or from all."""
        with self._verbs:
            name = self.layout.place(node_id).name
            others = [each for each in self._node_ids(from_) if each != node_id]
            if not others:
                raise BadCluster(f"{name} can be cut off from others only, and {from_!r} names none")
            self._tell("isolate", node_id, f"cut {{}} off from {', '.join(map(str, others))}")
            self._set_faults(with_cuts(self._faults, node_id, others))

    def heal(self) -> None:
        """End every isolation; held messages stay held."""
        with self._verbs:
            if self._faults.cuts:
                self._tell_all("heal", "ended every isolation", undone=True)
            self._set_faults(Faulty((), self._faults.holds))

    def hold(self, api: str, to: str | int | None = None) -> HeldMessages:
        """Hold back what nodes send each other of one API, such as `"AlterPartition"`, until it is released.

        `to` is a node id or `"controller"`. A name that ends in Response holds answers instead.
        """
        try:
            find_api(api.removesuffix("Response"))
        except KeyError:
            raise BadCluster(f"there is no API called {api!r}") from None
        with self._verbs:
            receiver = None if to is None else self._node_ids(to)[0]
            self._holds += 1
            hold = Hold(self._holds, api, receiver)
            self._set_faults(with_hold(self._faults, hold))
            return HeldMessages(self, hold)

    # Inside.

    def _check_processes(self, mode: str | None) -> None:
        if mode == "zookeeper" and self._processes is False:
            # A controller waits for ZooKeeper, and nothing else in its process may have to wait with it.
            raise BadCluster("zookeeper mode has a process a node; in one process there is log mode")

    def _tell(self, verb: str, node_id: int, told: str, *, undone: bool = False) -> None:
        """Write down what is about to be done to a node; `{}` in the text is its name."""
        name = self.layout.place(node_id).name
        self._fault_ledger.tell(verb, node_id, told.format(name), undone=undone)

    def _tell_all(self, verb: str, told: str, *, undone: bool = False) -> None:
        self._fault_ledger.tell(verb, -1, told, undone=undone)

    @property
    def _nodes(self) -> Nodes:
        if self._started is None:
            raise BadCluster("the cluster is not running")
        return self._started

    def _runs(self, node_id: int) -> bool:
        return self.state(node_id) in (RUNNING, PAUSED)

    def _check_runs(self, node_id: int) -> None:
        """Before something is told that will not be done."""
        if not self._runs(node_id):
            raise BadCluster(f"node {node_id} is not running")

    def _broker(self, broker_id: int) -> None:
        if self.layout.place(broker_id).role != "broker":
            raise BadCluster(f"node {broker_id} is the controller, which has no generation to bounce")

    def _node_ids(self, nodes: str | int | Iterable[int] | None) -> list[int]:
        layout = self.layout
        if nodes is None or nodes == "all":
            return [*layout.controllers, *layout.brokers]
        if nodes == "controller":
            # Whoever is cut off from the controller must not reach the next one either.
            return sorted(layout.controllers, key=lambda each: each != self.controller_id)
        if nodes == "brokers":
            return list(layout.brokers)
        if isinstance(nodes, str):
            if not nodes.removeprefix("-").isdecimal():
                raise BadCluster(f"nodes are all, controller, brokers or an id, not {nodes!r}")
            nodes = int(nodes)
        return [layout.place(each).id for each in ([nodes] if isinstance(nodes, int) else nodes)]

    def _set_faults(self, faults: Faulty) -> None:
        with self._verbs:
            self._nodes.set_faults(faults)
            self._faults = faults

    def _wait_fenced(self, broker_id: int) -> None:
        def fenced(image: ClusterImage) -> bool:
            known = image.broker(broker_id)
            return known is None or known.fenced

        self._wait_image(fenced, f"broker {broker_id} to be fenced", watch=())

    def _wait_serving(self, broker_ids: tuple[int, ...], newer_than: int = -1) -> None:
        """Until the controller has unfenced the brokers and each of them tells clients about itself."""

        def unfenced(image: ClusterImage) -> bool:
            for broker_id in broker_ids:
                known = image.broker(broker_id)
                if known is None or not known.active or known.epoch <= newer_than:
                    return False
            return True

        names = ", ".join(map(str, broker_ids))
        controllers = self.controller_ids if len(self.controller_ids) == 1 else ()
        self._wait_image(unfenced, f"brokers {names} to be unfenced", watch=(*controllers, *broker_ids))
        deadline = time.monotonic() + READY_TIMEOUT_S
        for broker_id in broker_ids:
            serves = partial(self._serves, broker_id, broker_ids)
            _wait(serves, deadline, f"broker {broker_id} to serve clients")

    def _serves(self, broker_id: int, broker_ids: tuple[int, ...]) -> bool:
        self._nodes.check(broker_id)
        place = self.layout.place(broker_id)
        try:
            with Connection((HOST, place.client_port)) as broker:
                # An empty list of topics asks for the brokers alone.
                answer = broker.ask(MetadataRequest(topics=()), version=METADATA_VERSION)
        except ClientError:
            return False
        return {*broker_ids} <= {each.node_id for each in answer.brokers}

    def _wait_image(self, seen: Callable[[ClusterImage], bool], what: str, watch: tuple[int, ...]) -> None:
        assert self._watcher is not None

        def look_at_nodes() -> None:
            for node_id in watch:
                self._nodes.check(node_id)

        deadline = time.monotonic() + READY_TIMEOUT_S
        if not self._watcher.wait_until(seen, deadline=deadline, between=look_at_nodes):
            raise ClusterError(f"waited {READY_TIMEOUT_S:g} s in vain for {what}")

    def _wake(self, node_id: int) -> None:
        if self._nodes.state(node_id) == PAUSED:
            self._nodes.resume(node_id)

    def _stop_all(self, node_ids: list[int]) -> list[NodeFailed]:
        failures = []
        asked = []
        for node_id in node_ids:
            if self._nodes.state(node_id) in (RUNNING, PAUSED):
                self._nodes.ask_to_stop(node_id)
                asked.append(node_id)
        for node_id in asked:
            try:
                self._nodes.wait_stopped(node_id)
            except NodeFailed as failure:
                failures.append(failure)
        return failures

    def _tear_down(self) -> None:
        watcher, self._watcher = self._watcher, None
        nodes, self._started = self._started, None
        layout, self._layout = self._layout, None
        self._faults = Faulty()
        if watcher is not None:
            watcher.close()
        try:
            if nodes is not None:
                nodes.close()
        finally:
            self._ensemble.stop()
            if layout is not None:
                layout.close()


def _new_nodes(processes: bool, layout: Layout) -> Nodes:
    # Each side is imported only when it is used: starting processes needs no event loop here.
    if processes:
        from epoka.cluster.processes import Processes

        return Processes()
    from epoka.cluster.inprocess import InProcess

    return InProcess(layout.data / "cluster.log")


def _wait(condition: Callable[[], bool], deadline: float, what: str) -> None:
    while not condition():
        if time.monotonic() >= deadline:
            raise ClusterError(f"waited in vain for {what}")
        time.sleep(LOOK_AGAIN_S)
