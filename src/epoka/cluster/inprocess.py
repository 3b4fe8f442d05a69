"""The nodes of a cluster in this process: one event loop in one background thread drives them all.

Clients come through real sockets; what nodes say to each other goes from core to core through the
switchboard. A killed node loses what a killed process would lose: its connections, its memory, its word. A
paused one takes in nothing and does nothing until it is resumed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from epoka.cluster.errors import BadCluster, NodeFailed
from epoka.cluster.faults import Faulty, FaultyGate
from epoka.cluster.layout import CONTROLLER_ID, NodePlace
from epoka.cluster.ledgers import keep_written
from epoka.cluster.nodes import (
    FAILED,
    PAUSED,
    RUNNING,
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    STOPPED,
    log_tail,
)
from epoka.ledger.file import LedgerFile
from epoka.log.store import StorageError
from epoka.node.config import load
from epoka.node.lines import LineFormatter
from epoka.node.process import Node, StartFailed, new_loop
from epoka.node.runtime import EXIT_CLEAN, Ending
from epoka.node.switchboard import Switchboard

T = TypeVar("T")

LOOP_TIMEOUT_S = 60.0


class _Life:
    """One life of one node."""

    def __init__(self, place: NodePlace) -> None:
        self.place = place
        self.node: Node | None = None
        self.paused = False
        self.told_to_end = False
        self.started: Future[None] = Future()
        self.ended: Future[Ending] = Future()

    @property
    def alive(self) -> bool:
        return not self.ended.done()


class InProcess:
    """All nodes on one loop; see `Nodes`."""

    def __init__(self, log_path: Path) -> None:
        self._log_path = log_path
        self._lives: dict[int, _Life] = {}
        self._ledgers: dict[int, LedgerFile] = {}
        self._gate = FaultyGate(CONTROLLER_ID)
        self._log_handler = _write_log(log_path)
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._drive, name="epoka-cluster", daemon=True)
        self._thread.start()
        self._switchboard = self._on_loop(lambda: Switchboard(self._gate))
        self._loop.call_soon_threadsafe(keep_written, self._all_ledgers)

    def begin(self, place: NodePlace) -> None:
        before = self._lives.get(place.id)
        if before is not None and before.alive:
            raise BadCluster(f"{place.name} is running already")
        if place.id not in self._ledgers:
            self._ledgers[place.id] = LedgerFile(place.ledger_path)
        life = self._lives[place.id] = _Life(place)
        self._submit(self._live(life))

    def wait_listening(self, node_id: int) -> None:
        life = self._lives[node_id]
        try:
            life.started.result(START_TIMEOUT_S)
        except TimeoutError:
            raise self._failure(life, f"did not start within {START_TIMEOUT_S:g} s") from None

    def ask_to_stop(self, node_id: int) -> None:
        life = self._alive(node_id)
        life.told_to_end = True
        self.resume(node_id)
        node = life.node
        if node is not None:
            self._on_loop(node.stop)

    def wait_stopped(self, node_id: int, timeout_s: float = STOP_TIMEOUT_S) -> None:
        life = self._lives[node_id]
        try:
            ending = life.ended.result(timeout_s)
        except TimeoutError:
            raise self._failure(life, f"did not stop within {timeout_s:g} s") from None
        if ending.code != EXIT_CLEAN:
            raise self._failure(life, f"ended with code {ending.code}: {ending.reason}")

    def kill(self, node_id: int) -> None:
        life = self._lives.get(node_id)
        if life is None or not life.alive:
            return
        life.told_to_end = True
        node = life.node
        if node is not None:
            self._on_loop(node.kill)
        life.ended.result(LOOP_TIMEOUT_S)

    def pause(self, node_id: int) -> None:
        life = self._alive(node_id)
        if life.node is not None:
            self._on_loop(life.node.pause)
            life.paused = True

    def resume(self, node_id: int) -> None:
        life = self._alive(node_id)
        if life.paused and life.node is not None:
            life.paused = False
            self._on_loop(life.node.resume)

    def state(self, node_id: int) -> str:
        life = self._lives.get(node_id)
        if life is None:
            return STOPPED
        if life.alive:
            return PAUSED if life.paused else RUNNING
        return STOPPED if life.told_to_end else FAILED

    def pid(self, node_id: int) -> int | None:
        life = self._lives.get(node_id)
        return os.getpid() if life is not None and life.alive else None

    def check(self, node_id: int) -> None:
        if self.state(node_id) == FAILED:
            life = self._lives[node_id]
            ending = life.ended.result()
            raise self._failure(life, f"ended with code {ending.code}: {ending.reason}")

    def set_faults(self, faults: Faulty) -> None:
        self._on_loop(lambda: self._gate.set(faults))

    def held(self, hold_id: int) -> int:
        return self._gate.held.get(hold_id, 0)

    def flush_ledgers(self) -> None:
        self._on_loop(self._flush)

    def close(self) -> None:
        if not self._thread.is_alive():
            return
        for node_id in list(self._lives):
            self.kill(node_id)
        self._on_loop(self._flush)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LOOP_TIMEOUT_S)
        logging.getLogger("epoka").removeHandler(self._log_handler)
        self._log_handler.close()

    async def _live(self, life: _Life) -> None:
        """One life, from its beginning to its end, whatever it is."""
        ending = Ending(1, False, "it did not start")
        try:
            node = Node(
                load(life.place.properties_path),
                switchboard=self._switchboard,
                report=self._ledgers[life.place.id].write,
            )
            await node.start()
            life.node = node
            life.started.set_result(None)
            if life.told_to_end:
                # Killed while it started: nobody could reach it then.
                node.kill()
            ending = await node.wait()
        except (StartFailed, StorageError) as error:
            life.started.set_exception(self._failure(life, f"cannot start: {error}"))
        except Exception as error:
            logging.getLogger("epoka").exception("%s is lost", life.place.name)
            ending = Ending(1, False, f"{type(error).__name__}: {error}")
            if not life.started.done():
                life.started.set_exception(self._failure(life, f"cannot start: {ending.reason}"))
        finally:
            life.ended.set_result(ending)

    def _drive(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _all_ledgers(self) -> list[LedgerFile]:
        # A copy: nodes are begun on another thread than this one.
        return list(self._ledgers.values())

    def _flush(self) -> None:
        for ledger in self._all_ledgers():
            ledger.flush()

    def _submit(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def _on_loop(self, call: Callable[[], T]) -> T:
        """Do something on the loop's thread and wait for it."""
        outcome: Future[T] = Future()

        def do() -> None:
            try:
                outcome.set_result(call())
            except BaseException as error:
                outcome.set_exception(error)

        self._loop.call_soon_threadsafe(do)
        return outcome.result(LOOP_TIMEOUT_S)

    def _alive(self, node_id: int) -> _Life:
        life = self._lives.get(node_id)
        if life is None or not life.alive:
            raise BadCluster(f"node {node_id} is not running")
        return life

    def _failure(self, life: _Life, what: str) -> NodeFailed:
        return NodeFailed(f"{life.place.name} {what}", log_tail(self._log_path))


def _write_log(path: Path) -> logging.Handler:
    """The nodes' lines go to a file, and to whatever the program around the cluster has set up besides."""
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.setFormatter(LineFormatter(None))
    logger = logging.getLogger("epoka")
    logger.addHandler(handler)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    return handler
