"""Follows a cluster from outside: its metadata from whoever is the controller, its ledger from the files.

One thread each, so that a controller that stands still holds up neither the ledger nor a page. What was last
seen stays when nobody answers, with its age. Reads only; it never changes the cluster.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from epoka.client.errors import ClientError
from epoka.client.settings import Address
from epoka.cluster.ensemble import trouble
from epoka.cluster.errors import BadCluster
from epoka.cluster.fault_ledger import FILE_NAME as FAULTS
from epoka.cluster.layout import ClusterFile, read_cluster_file
from epoka.cluster.ports import HOST
from epoka.cluster.status import ClusterStatus, cluster_status
from epoka.cluster.watching import Watcher
from epoka.dashboard.asking import Asking
from epoka.dashboard.chronicle import LIFE, REFUSALS, Chronicle, told
from epoka.dashboard.feed import Feed
from epoka.dashboard.health import broker_row, health
from epoka.dashboard.lives import TimeLine, time_line
from epoka.dashboard.rates import Sampler
from epoka.dashboard.tables import Tables
from epoka.ledger.tail import Tail
from epoka.model.errors import InvariantBroken
from epoka.model.image import ClusterImage

log = logging.getLogger(__name__)

LOOK_AGAIN_S: Final = 0.2
DOWN_S: Final = 0.5
"""How long to wait before a controller that did not answer is asked again."""
SILENT_MS: Final = 3_000
"""An answer that takes longer than this means that nobody answers."""
ENSEMBLE_S: Final = 2.0
"""How long an answer of the ensemble is believed."""
HEARTBEATS_S: Final = 1.0
"""How often pages are told who was heard of when."""
MOST_PUSHED: Final = 100
"""New refusals in one message; a page that needs more asks for them."""

PLAINTEXT: Final = 0

NodeStates = Callable[[], Mapping[int, str]]


class Observer:
    def __init__(self, folder: Path, nodes: NodeStates | None = None) -> None:
        """`nodes` tells the state of every node, for whoever runs them."""
        self.folder = folder
        self.feed = Feed()
        self.chronicle = Chronicle()
        self.tables: Tables | None = None
        self._nodes = nodes
        self._known: ClusterFile | None = None
        self._watcher: Watcher | None = None
        self._status: ClusterStatus | None = None
        self._copied: tuple[int, int] | None = None
        self._looked: tuple[object, ...] | None = None
        self._ensemble_trouble: str | None = None
        self._ask_ensemble_at = 0.0
        self._heard_ms: dict[str, int] = {}
        self._tell_heartbeats_at = 0.0
        self._answered_ms = 0
        self._asking_since_ms = 0
        self._failure = ""
        self._line = TimeLine({}, [], [])
        self._line_told: dict[str, Any] = msgspec.to_builtins(self._line)
        self._state: dict[str, Any] = {}
        self._publishing = threading.Lock()
        self._stop = threading.Event()
        self._tail = Tail(self._ledger_files)
        self.asking = Asking(self._addresses)
        self._rates = Sampler(self.asking, self.feed, lambda: self.tables.image if self.tables else None)
        self._threads = [
            threading.Thread(target=self._follow_metadata, name="epoka-dashboard-metadata", daemon=True),
            threading.Thread(target=self._follow_ledger, name="epoka-dashboard-ledger", daemon=True),
        ]

    def start(self) -> None:
        # The first look at both, so that the first page is not empty.
        self._read_ledger()
        self._read_metadata()
        self._tell()
        for thread in self._threads:
            thread.start()
        self._rates.start()

    def close(self) -> None:
        self._stop.set()
        self.feed.close()
        self._rates.close()
        self.asking.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=1)

    def state(self) -> dict[str, Any]:
        """Everything that the overview and the list of brokers show."""
        with self._publishing:
            return {**self._state, "heard": self._heard_ms, "rates": self._rates.points(), "now_ms": now_ms()}

    def broker_states(self) -> dict[int, str]:
        """One word for each broker."""
        with self._publishing:
            return {int(each): row["state"] for each, row in self._state.get("brokers", {}).items()}

    def time_line(self) -> dict[str, Any]:
        with self._publishing:
            return self._line_told

    # The cluster.

    def _follow_metadata(self) -> None:
        while not self._stop.is_set():
            good = self._read_metadata()
            self._tell()
            self._stop.wait(LOOK_AGAIN_S if good else DOWN_S)

    def _read_metadata(self) -> bool:
        self._asking_since_ms = now_ms()
        try:
            image, controller, known = self._ask()
        except ClientError as error:
            self._forget_watcher()
            self._failure = str(error)
            if self._known is not None and self._status is not None:
                # The nodes are seen without a controller; the rest is what it was.
                self._look(self._known, self._status.controller)
            return False
        finally:
            self._asking_since_ms = 0
        self._answered_ms, self._failure = now_ms(), ""
        self._note_heartbeats()
        # The watcher's image changes under its next read; pages get a copy that does not.
        if self.tables is None or self._copied != (controller, image.offset):
            copy = ClusterImage()
            copy.copy_of(image)
            self.tables, self._copied = Tables(copy), (controller, image.offset)
        self._look(known, controller)
        return True

    def _note_heartbeats(self) -> None:
        """Beside the state, which would otherwise change with every heartbeat of anybody."""
        silent = {} if self._watcher is None else self._watcher.silent_ms
        self._heard_ms = {str(each): self._answered_ms - ms for each, ms in silent.items()}
        if time.monotonic() >= self._tell_heartbeats_at:
            self._tell_heartbeats_at = time.monotonic() + HEARTBEATS_S
            self.feed.publish("heard", self._heard_ms)

    def _look(self, known: ClusterFile, controller: int) -> None:
        assert self.tables is not None
        states: Mapping[int, str] = {}
        if self._nodes is not None:
            try:
                states = self._nodes()
            except BadCluster:
                # It ends just now.
                states = {int(each): "stopped" for each in known.brokers}
        problem = self._trouble(known)
        # Counting costs a pass over every partition; most of the time nothing has changed.
        looked = (self._copied, dict(states), problem)
        if looked == self._looked:
            return
        self._looked = looked
        self._status = cluster_status(
            self.tables.image,
            cluster_id=known.cluster_id,
            mode=known.mode,
            controller=controller,
            expected=tuple(int(each) for each in known.brokers),
            nodes={each: (state, None) for each, state in states.items()} or None,
            problem=problem,
        )

    def _trouble(self, known: ClusterFile) -> str | None:
        """What is wrong with the ensemble, asked now and then."""
        if known.zookeeper and time.monotonic() >= self._ask_ensemble_at:
            self._ensemble_trouble = trouble(known.zookeeper)
            self._ask_ensemble_at = time.monotonic() + ENSEMBLE_S
        return self._ensemble_trouble

    def _ask(self) -> tuple[ClusterImage, int, ClusterFile]:
        if self._watcher is None or self._known is None:
            try:
                known = read_cluster_file(self.folder)
            except BadCluster as error:
                raise ClientError(str(error)) from error
            if known is None:
                raise ClientError(f"there is no cluster in {self.folder}")
            self._known = known
            self._watcher = Watcher(
                *((each, HOST, port) for each, port in known.controllers.items()), heartbeats=True
            )
        try:
            return self._watcher.refresh(), self._watcher.controller, self._known
        except InvariantBroken as error:
            # Another cluster took the place of the one that was followed: begin anew.
            raise ClientError("the controller's log is another one") from error

    def _forget_watcher(self) -> None:
        # A cluster that comes back may come back on other ports; its metadata is read from the start.
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None

    def _addresses(self) -> tuple[Address, ...]:
        """Where clients reach brokers without a password, those that serve first."""
        if self.tables is None:
            return ()
        states = self.broker_states()
        brokers = sorted(
            self.tables.image.brokers.values(), key=lambda each: (states.get(each.id) != "active", each.id)
        )
        return tuple(
            (place.host, place.port)
            for each in brokers
            for place in each.client_endpoints
            if place.security_protocol == PLAINTEXT
        )

    # The ledger.

    def _follow_ledger(self) -> None:
        while not self._stop.wait(LOOK_AGAIN_S):
            self._read_ledger()
            self._tell()

    def _ledger_files(self) -> list[Path]:
        return [*sorted(self.folder.glob("*/ledger.jsonl")), self.folder / FAULTS]

    def _read_ledger(self) -> None:
        try:
            events = self._tail.new()
        except OSError as error:
            log.warning("the ledger in %s cannot be read: %s", self.folder, error.strerror or error)
            return
        if not events:
            return
        self.chronicle.add(events)
        if any(event.kind in LIFE for event in events):
            self._draw()
        if not self.feed.listeners:
            return
        refused = [event for event in events if event.kind == "verdict" and event.verdict in REFUSALS]
        self.feed.publish(
            "ledger",
            {
                "refusals": [told(event) for event in refused[-MOST_PUSHED:]],
                "left_out": max(0, len(refused) - MOST_PUSHED),
                "topics": sorted({event.topic for event in events if event.topic})[:MOST_PUSHED],
                "brokers": sorted({event.broker for event in events if event.broker >= 0}),
            },
        )

    def _draw(self) -> None:
        """Draw the time line and publish the lanes that are not what they were."""
        line = time_line(self.chronicle.life_events())
        told_line = msgspec.to_builtins(line, str_keys=True)
        with self._publishing:
            before, self._line, self._line_told = self._line_told, line, told_line
        changed = {
            "lanes": {
                broker: lane
                for broker, lane in told_line["lanes"].items()
                if before.get("lanes", {}).get(broker) != lane
            },
            **{part: told_line[part] for part in ("reigns", "faults") if before.get(part) != told_line[part]},
        }
        if changed["lanes"] or len(changed) > 1:
            self.feed.publish("timeline", changed)

    # Telling.

    def _tell(self) -> None:
        """Publish what differs from what was published last."""
        with self._publishing:
            fresh = self._fresh_state()
            before, self._state = self._state, fresh
            if not self.feed.listeners:
                return
            changed: dict[str, Any] = {
                part: fresh[part] for part in fresh if part != "brokers" and before.get(part) != fresh[part]
            }
            old, new = before.get("brokers", {}), fresh["brokers"]
            brokers = {each: row for each, row in new.items() if old.get(each) != row}
            gone = [each for each in old if each not in new]
            if brokers:
                changed["brokers"] = brokers
            if gone:
                changed["gone"] = gone
            if changed:
                self.feed.publish("delta", changed)

    def _fresh_state(self) -> dict[str, Any]:
        status, standing = self._status, self.chronicle.last_standing()
        ended = {
            lane.broker: lane.lives[-1].ended
            for lane in self._line.lanes.values()
            if lane.lives and lane.lives[-1].ended
        }
        failure = self._failure
        since = self._asking_since_ms
        if not failure and since and now_ms() - since > SILENT_MS:
            failure = "it has been asked and says nothing"
        return {
            "cluster": {
                "id": status.cluster_id if status else None,
                "mode": status.mode if status else None,
                "level": status.level if status else None,
                "controller": status.controller if status else None,
            },
            "counts": {
                "topics": status.topics if status else 0,
                "partitions": status.partitions if status else 0,
                "out_of_sync": status.under_replicated if status else 0,
                "offline": status.offline if status else 0,
                "refusals": self.chronicle.refusals(),
                "forgotten": self.chronicle.forgotten,
            },
            # The age is only of interest when nobody answers; otherwise it would change all the time.
            "seen": {"reachable": not failure, "answered_ms": self._answered_ms if failure else None},
            "offset": self.tables.image.offset if self.tables else -1,
            "health": msgspec.to_builtins(health(status, failure, standing, ended)),
            "brokers": {
                str(broker.id): broker_row(broker, standing, ended)
                for broker in (status.brokers if status else ())
            },
        }


def now_ms() -> int:
    return int(time.time() * 1000)
