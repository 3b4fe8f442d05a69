"""A controller in zookeeper mode that hears the heartbeats of 1,000 brokers, each on a connection of its own.

The core, the codec and the sockets are the real ones, in a process of their own; a second process beats for
all brokers at the default interval, evenly spread. What is told is the processor time of the controller's
process, system time included, in the middle of which nothing else happens.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import time
from typing import Any, ClassVar
from uuid import UUID

import msgspec

from benchmarks.figures import Figure, beside
from epoka.broker.config import BrokerConfig
from epoka.controller import ControllerConfig, ControllerCore, MemoryMetadataLog
from epoka.model.events import RegistryChanged, RegistryEntry, Reply, Send
from epoka.model.levels import FEATURE_NAME, HIGHEST, FeatureLevel
from epoka.model.records import encode_record
from epoka.model.registrations import Endpoint, Feature
from epoka.node.client import Links
from epoka.node.process import new_loop
from epoka.node.runtime import Ending, Runtime, report_nowhere
from epoka.node.server import Listener
from epoka.wire import codec
from epoka.wire.messages import leader_and_isr, stop_replica, update_metadata
from epoka.wire.messages import metadata_records as m
from epoka.wire.messages.metadata_heartbeat import MetadataHeartbeatRequest, MetadataHeartbeatResponse

BROKERS = 1_000
INTERVAL_MS = next(
    field.default for field in msgspec.structs.fields(BrokerConfig) if field.name == "heartbeat_interval_ms"
)
SETTLE_S = 4.0
MEASURE_S = 10.0
ACTIVE = 2
NO_TIMEOUT_MS = 60_000


class Heard(msgspec.Struct, frozen=True):
    """What the controller's process did while it was watched."""

    busy_s: float
    watched_s: float


class Quiet:
    """Brokers who take in every control request at once."""

    ANSWERS: ClassVar = {
        leader_and_isr.LeaderAndIsrRequest: leader_and_isr.LeaderAndIsrResponse(),
        update_metadata.UpdateMetadataRequest: update_metadata.UpdateMetadataResponse(),
        stop_replica.StopReplicaRequest: stop_replica.StopReplicaResponse(),
    }

    def send(self, runtime: Runtime, send: Send) -> None:
        answer = self.ANSWERS[codec.class_of(send.message)]
        asyncio.get_running_loop().call_soon(runtime.handle, Reply(send.token, answer))


def stored_state() -> MemoryMetadataLog:
    """One partition led by each broker: a new controller counts on whoever leads."""
    log = MemoryMetadataLog()
    topic_id = UUID(int=1)
    records: list[Any] = [
        m.FeatureLevelRecord(name=FEATURE_NAME, feature_level=HIGHEST),
        m.TopicRecord(name="topic", topic_id=topic_id),
    ]
    for broker in range(1, BROKERS + 1):
        replicas = tuple((broker + place - 1) % BROKERS + 1 for place in range(3))
        records.append(
            m.PartitionRecord(
                partition_id=broker - 1, topic_id=topic_id, replicas=replicas, isr=replicas, leader=broker
            )
        )
    log.append([encode_record(each) for each in records])
    return log


def registrations() -> tuple[RegistryEntry, ...]:
    levels = Feature(FEATURE_NAME, min(FeatureLevel), max(FeatureLevel))
    return tuple(
        RegistryEntry(broker, broker, 5, (Endpoint("CONTROL", "127.0.0.1", 9093),), None, (levels,))
        for broker in range(1, BROKERS + 1)
    )


async def controller() -> None:
    """Take over, open the door, and tell what the next seconds cost when asked to."""
    ids = itertools.count(1)
    core = ControllerCore(
        0,
        "benchmark",
        stored_state(),
        ControllerConfig(auto_leader_rebalance=False),
        new_id=lambda: UUID(int=next(ids)),
        controller_epoch=1,
    )
    ended: list[Ending] = []
    runtime = Runtime(core, node_id=0, carrier=Quiet(), report=report_nowhere, on_end=ended.append)
    runtime.start()
    runtime.handle(RegistryChanged(registrations()))
    listener = Listener((), control=True)
    _, port = await listener.bind("127.0.0.1", 0)
    await listener.serve([runtime])
    print(port, flush=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.readline)
    before, started = os.times(), time.perf_counter()
    await asyncio.sleep(MEASURE_S)
    after, watched_s = os.times(), time.perf_counter() - started
    assert not ended, ended
    assert not any(broker.fenced for broker in core.image.brokers.values())
    busy_s = after.user + after.system - before.user - before.system
    print(msgspec.json.encode(Heard(busy_s, watched_s)).decode(), flush=True)
    await listener.close()


async def brokers(port: int) -> None:
    """Beat for everybody until the controller closes its door; say when all of them were heard."""
    loop = asyncio.get_running_loop()
    heard: set[int] = set()
    count = itertools.count(1)

    def replied(token: int, answer: Any) -> None:
        if answer is None:
            loop.stop()
            return
        assert answer == MetadataHeartbeatResponse(current_state=ACTIVE), answer
        broker = token % (BROKERS + 1)
        if broker not in heard:
            heard.add(broker)
            if len(heard) == BROKERS:
                print("all", flush=True)

    links = Links(node_id=1, client_id="broker", resolve=lambda to: [("127.0.0.1", port)], reply=replied)

    def beat(broker: int, due_s: float) -> None:
        request = MetadataHeartbeatRequest(broker_id=broker, incarnation_id=broker, target_state=ACTIVE)
        token = next(count) * (BROKERS + 1) + broker
        # Every broker is a node of its own, so every one has a connection of its own.
        links.send(Send(broker, token, request, 0, NO_TIMEOUT_MS))
        due_s += INTERVAL_MS / 1000
        loop.call_at(due_s, beat, broker, due_s)

    begin_s = loop.time()
    for broker in range(1, BROKERS + 1):
        due_s = begin_s + broker * INTERVAL_MS / 1000 / BROKERS
        loop.call_at(due_s, beat, broker, due_s)
    await asyncio.Event().wait()


def measured() -> Heard:
    here = [sys.executable, "-m", "benchmarks.many_heartbeats"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*here, "controller"], **pipes) as office:  # type: ignore[call-overload]
        port = office.stdout.readline().strip()
        with subprocess.Popen([*here, "brokers", port], **pipes) as people:  # type: ignore[call-overload]
            try:
                assert people.stdout.readline() == "all\n"
                time.sleep(SETTLE_S)
                office.stdin.write("watch\n")
                office.stdin.flush()
                return msgspec.json.decode(office.stdout.readline(), type=Heard)
            finally:
                people.kill()
                office.kill()


def run() -> list[Figure]:
    found = measured()
    share = found.busy_s / found.watched_s
    return [
        beside(
            f"controller, heartbeats of {BROKERS:,} brokers, each every {INTERVAL_MS / 1000:g} s",
            "% of a core",
            100 * share,
            "one core",
            100,
        )
    ]


def main(arguments: list[str]) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(controller() if arguments[0] == "controller" else brokers(int(arguments[1])))


if __name__ == "__main__":
    main(sys.argv[1:])
