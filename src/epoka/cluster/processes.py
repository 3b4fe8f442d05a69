"""The nodes of a cluster as real processes: kill -9 is kill -9 and a pause is SIGSTOP.

No node outlives its cluster, however that ends: a node ends when its channel breaks, and one that is stopped
is woken and hung up on by the kernel, because its process group is orphaned with its parent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

from epoka.cluster.channel import Begin, Channel, ChannelClosed, SetFaults, Tell
from epoka.cluster.errors import BadCluster, NodeFailed
from epoka.cluster.faults import Faulty
from epoka.cluster.layout import CONTROLLER_ID, NodePlace
from epoka.cluster.nodes import (
    FAILED,
    PAUSED,
    RUNNING,
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    STOPPED,
    log_tail,
)
from epoka.node.runtime import EXIT_BUG, EXIT_CLEAN

ANSWER_TIMEOUT_S = 10.0
KILL_TIMEOUT_S = 10.0


class _Process:
    """One life of one node."""

    def __init__(self, place: NodePlace, faults: Faulty) -> None:
        self.place = place
        self.paused = False
        self.told_to_end = False
        self.listening = False
        ours, theirs = socket.socketpair()
        try:
            with place.log_path.open("ab") as log, theirs:
                self.popen = subprocess.Popen(
                    [
                        sys.executable,
                        *("-m", "epoka.cluster.member"),
                        *("--config", str(place.properties_path)),
                        *("--ledger", str(place.ledger_path)),
                        *("--channel", str(theirs.fileno())),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(theirs.fileno(),),
                    # A group of its own: Ctrl-C is for the cluster, which stops its nodes in order.
                    process_group=0,
                )
        except BaseException:
            ours.close()
            raise
        self.channel = Channel(ours)
        with contextlib.suppress(ChannelClosed):
            self.channel.tell(Begin(CONTROLLER_ID, faults))

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def failure(self, what: str) -> NodeFailed:
        return NodeFailed(f"{self.place.name} {what}", log_tail(self.place.log_path))

    def ended(self) -> NodeFailed:
        code = self.popen.wait()
        if code < 0:
            try:
                how = f"was killed by {signal.Signals(-code).name}"
            except ValueError:
                how = f"was killed by signal {-code}"
        elif code == EXIT_BUG:
            how = f"stopped because of a defect in itself (exit code {code})"
        else:
            how = f"ended with exit code {code}"
        return self.failure(how)


class Processes:
    """One process a node; see `Nodes`."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self._faults = Faulty()
        self._held: dict[int, dict[int, int]] = {}

    def begin(self, place: NodePlace) -> None:
        before = self._processes.get(place.id)
        if before is not None:
            if before.alive:
                raise BadCluster(f"{place.name} is running already")
            before.channel.close()
        self._processes[place.id] = _Process(place, self._faults)

    def wait_listening(self, node_id: int) -> None:
        process = self._processes[node_id]
        try:
            process.listening = process.listening or process.channel.wait_started(timeout_s=START_TIMEOUT_S)
        except ChannelClosed:
            raise process.ended() from None
        if not process.listening:
            raise process.failure(f"did not start within {START_TIMEOUT_S:g} s")

    def ask_to_stop(self, node_id: int) -> None:
        process = self._alive(node_id)
        process.told_to_end = True
        process.popen.send_signal(signal.SIGTERM)
        self._continue(process)

    def wait_stopped(self, node_id: int, timeout_s: float = STOP_TIMEOUT_S) -> None:
        process = self._processes[node_id]
        try:
            code = process.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise process.failure(f"did not stop within {timeout_s:g} s") from None
        if code != EXIT_CLEAN:
            raise process.ended()

    def kill(self, node_id: int) -> None:
        process = self._processes.get(node_id)
        if process is None or not process.alive:
            return
        process.told_to_end = True
        process.popen.kill()
        process.popen.wait(KILL_TIMEOUT_S)
        process.channel.close()

    def pause(self, node_id: int) -> None:
        process = self._alive(node_id)
        if not process.paused:
            process.popen.send_signal(signal.SIGSTOP)
            process.paused = True
            _wait_stopped(process.popen.pid)

    def resume(self, node_id: int) -> None:
        self._continue(self._alive(node_id))

    def state(self, node_id: int) -> str:
        process = self._processes.get(node_id)
        if process is None:
            return STOPPED
        if process.alive:
            return PAUSED if process.paused else RUNNING
        return STOPPED if process.told_to_end else FAILED

    def pid(self, node_id: int) -> int | None:
        process = self._processes.get(node_id)
        return process.popen.pid if process is not None and process.alive else None

    def check(self, node_id: int) -> None:
        if self.state(node_id) == FAILED:
            raise self._processes[node_id].ended()

    def set_faults(self, faults: Faulty) -> None:
        self._faults = faults
        self._order(SetFaults(faults))

    def held(self, hold_id: int) -> int:
        self._order(Tell())
        return sum(counts.get(hold_id, 0) for counts in self._held.values())

    def flush_ledgers(self) -> None:
        self._order(Tell())

    def close(self) -> None:
        for node_id, process in self._processes.items():
            self.kill(node_id)
            process.channel.close()

    def _order(self, order: SetFaults | Tell) -> None:
        silent: NodeFailed | None = None
        for node_id, process in self._processes.items():
            if not process.alive:
                continue
            try:
                if process.paused or not process.listening:
                    # It finds new faults when it goes on. A question would only wait, and fill the channel.
                    if isinstance(order, SetFaults):
                        process.channel.tell(order)
                else:
                    done = process.channel.ask(order, timeout_s=ANSWER_TIMEOUT_S)
                    self._held[node_id] = done.held
            except ChannelClosed:
                # It has ended in this moment; whoever asks for its state will hear so.
                continue
            except TimeoutError:
                silent = process.failure(f"has not answered its cluster for {ANSWER_TIMEOUT_S:g} s")
        if silent is not None:
            raise silent

    def _alive(self, node_id: int) -> _Process:
        process = self._processes.get(node_id)
        if process is None or not process.alive:
            raise BadCluster(f"node {node_id} is not running")
        return process

    def _continue(self, process: _Process) -> None:
        if process.paused:
            process.paused = False
            process.popen.send_signal(signal.SIGCONT)


def _wait_stopped(pid: int) -> None:
    """A stop signal is taken a moment after it was sent, by each thread for itself; until the last one has,
    the process still answers, and the kernel would not wake it if its cluster ended."""
    stopped_or_ended = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
    deadline = time.monotonic() + KILL_TIMEOUT_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline and os.waitid(os.P_PID, pid, stopped_or_ended) is None:
            time.sleep(0.001)
