"""The 30 GB of the UpdateMetadata cache KIP: 500,000 partitions of three replicas, told to 200 brokers.

A controller's image, its real encoding and its real connections in one process; readers that first stand
still and then read slowly in another. Memory is the peak of the resident set (VmHWM, set back before the
update is made) above what the image and the open connections took, so everything counts: the body, what
encoding it needs, what transports copy. Kernel buffers are told beside it.

Without sharing, as on the levels below, the same is measured at a size that the machine can hold and
multiplied up. The KIP's own formula is 250 bytes a broker and partition.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import re
import selectors
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from benchmarks.figures import Figure, beside
from epoka.controller.config import ControllerConfig
from epoka.controller.control_requests import VERSIONS, ControlRequests
from epoka.controller.sessions import Sessions
from epoka.controller.state import ControllerState
from epoka.fencing import ALL_RULES
from epoka.model.events import Send
from epoka.model.image import ClusterImage
from epoka.model.levels import FEATURE_NAME, FeatureLevel
from epoka.node.client import Links
from epoka.node.process import new_loop
from epoka.wire import codec
from epoka.wire.frame import decode_request_header, encode_response
from epoka.wire.messages import metadata_records as m
from epoka.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

BROKERS = 200
TOPICS = 500
PARTITIONS = 1_000
REPLICAS = 3
CONNECTED = (1, 50, BROKERS)
FORMULA_BYTES = 250
MEMORY_AIM_BYTES = 64_000_000
ENCODE_AIM_S = 0.5
SPREAD_AIM = 1.05

SMALL = (20, 50, 1_000)
"""Brokers, topics and partitions a topic of the measurement without sharing."""
KIO_TOPICS = 10
"""kio writes so many topics of 1,000 partitions; its time is multiplied up."""
ROUNDS = 5
READ_BYTES = 32 * 1024
TIMEOUT_MS = 300_000
ENOUGH_BYTES = 40
"""The size and the header of a request are no longer, and no request here is shorter."""


class Pushed(msgspec.Struct, frozen=True):
    """What one full update took."""

    body_bytes: int
    encode_s: float
    peak_bytes: int
    """Resident memory above the image and the idle connections, at its highest."""
    kernel_bytes: int
    """Socket buffers of both sides while the readers stood still."""
    all_told_s: float


def an_image(level: FeatureLevel, brokers: int, topics: int, partitions: int) -> ClusterImage:
    image = ClusterImage()
    image.apply(m.FeatureLevelRecord(name=FEATURE_NAME, feature_level=level), 0)
    for broker in range(1, brokers + 1):
        doors = tuple(
            m.BrokerEndpoint(name, f"broker-{broker}.example", port, 0)
            for name, port in (("PLAINTEXT", 9092), ("CONTROL", 9093))
        )
        record = m.RegisterBrokerRecord(
            broker_id=broker,
            incarnation_id=UUID(int=broker),
            broker_epoch=broker,
            end_points=doors,
            rack=f"rack-{broker % 3}",
            fenced=False,
        )
        image.apply(record, 0)
    assignments = [
        tuple((first + place) % brokers + 1 for place in range(min(REPLICAS, brokers)))
        for first in range(brokers)
    ]
    for number in range(topics):
        topic_id = UUID(int=number + 1)
        image.apply(m.TopicRecord(name=f"topic-{number:06d}", topic_id=topic_id), 0)
        for index in range(partitions):
            replicas = assignments[(number * partitions + index) % brokers]
            image.apply(
                m.PartitionRecord(
                    partition_id=index, topic_id=topic_id, replicas=replicas, isr=replicas, leader=replicas[0]
                ),
                0,
            )
    image.collected()
    return image


def requests_for(image: ClusterImage) -> ControlRequests:
    state = ControllerState(
        0, "benchmark", ControllerConfig(), ALL_RULES, image, Sessions(), lambda: UUID(int=0), pushes=True
    )
    requests = ControlRequests(state, 1)
    requests.max_epoch = max(image.brokers)
    return requests


# The controller's side.


class Sender:
    """Connections to as many brokers as are asked for, all behind one port."""

    def __init__(self, port: int, brokers: int) -> None:
        self._brokers = brokers
        self._open = 0
        self._told = asyncio.Event()
        self._links = Links(
            node_id=0,
            client_id="controller-0",
            resolve=lambda to: [("127.0.0.1", port)],
            reply=self._replied,
        )

    def send(self, message: Any, version: int, epochs: bool) -> None:
        """To everybody; with a generation of its own for each where the version has one."""
        for broker in range(1, self._brokers + 1):
            own = msgspec.structs.replace(message, broker_epoch=broker) if epochs else message
            self._open += 1
            self._links.send(Send(broker, broker, own, version, TIMEOUT_MS, 1))

    def _replied(self, token: int, answer: Any) -> None:
        assert answer == UpdateMetadataResponse(), answer
        self._open -= 1
        if not self._open:
            self._told.set()

    async def told(self) -> None:
        await self._told.wait()
        self._told.clear()

    def close(self) -> None:
        self._links.close()


async def push(port: int, brokers: int, level: FeatureLevel, image: ClusterImage) -> Pushed:
    shared = VERSIONS[level].shared
    version = VERSIONS[level].update_metadata
    requests = requests_for(image)
    sender = Sender(port, brokers)
    # Codecs are compiled and connections opened before anything counts, the readers wait for it.
    nothing = UpdateMetadataRequest(controller_epoch=1)
    sender.send(nothing, version, epochs=False)
    await sender.told()
    requests_for(an_image(level, 1, 1, 1)).update_metadata(image.all_rows()[:1], {})
    before, kernel_before = resident_after_cleaning(), kernel_bytes()
    forget_the_peak()
    started = time.perf_counter()
    update = requests.update_metadata(image.all_rows(), {})
    encode_s = time.perf_counter() - started
    sender.send(update, version, epochs=not shared)
    size = len(codec.encode_parts(update, version)[0])
    del update
    for _ in range(20):
        # Time to hand over whatever the readers' buffers take.
        await asyncio.sleep(0.05)
    kernel = kernel_bytes() - kernel_before
    print("go", flush=True)
    await sender.told()
    all_told_s = time.perf_counter() - started
    sender.close()
    return Pushed(size, encode_s, peak_resident() - before, kernel, all_told_s)


def resident_after_cleaning() -> int:
    """What is in use, without what the allocator keeps of what was freed."""
    gc.collect()
    gc.freeze()
    ctypes.CDLL(None).malloc_trim(0)
    return status("VmRSS")


def forget_the_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak_resident() -> int:
    return status("VmHWM")


def status(key: str) -> int:
    found = re.search(rf"^{key}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) * 1024


def kernel_bytes() -> int:
    found = re.search(r"^TCP:.* mem (\d+)", Path("/proc/net/sockstat").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) * 4096


# The brokers' side.


class Reader:
    """One broker's end of a connection: counts a frame and answers it."""

    def __init__(self, own_socket: socket.socket) -> None:
        self.socket = own_socket
        self._head = bytearray()
        self._left = 0

    def read(self, scratch: bytearray) -> bool:
        """Whether a frame has ended."""
        count = self.socket.recv_into(scratch)
        if not count:
            raise EOFError
        if not self._left:
            self._head += scratch[:count]
            if len(self._head) < ENOUGH_BYTES:
                return False
            (size,) = struct.unpack_from(">i", self._head)
            self._left = 4 + size - len(self._head)
        else:
            self._left -= count
        if self._left:
            return False
        header, _ = decode_request_header(bytes(self._head[4:]))
        self._head.clear()
        answer = encode_response(6, header.api_version, header.correlation_id, UpdateMetadataResponse())
        self.socket.sendall(b"".join(answer))
        return True


def readers(count: int) -> None:
    """Answer one small request on every connection, stand still until told to go on, then read slowly."""
    door = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(door.getsockname()[1], flush=True)
    people = [Reader(door.accept()[0]) for _ in range(count)]
    scratch = bytearray(READ_BYTES)
    for each in people:
        while not each.read(scratch):
            pass
    sys.stdin.readline()
    selector = selectors.DefaultSelector()
    for each in people:
        selector.register(each.socket, selectors.EVENT_READ, each)
    waiting = count
    while waiting:
        for key, _ in selector.select():
            if key.data.read(scratch):
                waiting -= 1
    # The controller closes first.
    sys.stdin.readline()


# Putting both together.


def measured(level: FeatureLevel, connected: int, size: tuple[int, int, int]) -> Pushed:
    here = [sys.executable, "-m", "benchmarks.shared_update"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*here, "readers", str(connected)], **pipes) as people:  # type: ignore[call-overload]
        try:
            port = people.stdout.readline().strip()
            numbers = [str(each) for each in (int(level), connected, *size)]
            with subprocess.Popen([*here, "push", port, *numbers], **pipes) as controller:  # type: ignore[call-overload]
                assert controller.stdout.readline() == "go\n"
                people.stdin.write("go\n")
                people.stdin.flush()
                found = msgspec.json.decode(controller.stdout.read(), type=Pushed)
            people.communicate("end\n", timeout=30)
            return found
        finally:
            people.kill()


def encoding_s(topics: int) -> float:
    """The codec's own time for a body, the best of some rounds, in this process."""
    image = an_image(FeatureLevel.FETCH_EPOCHS, BROKERS, topics, PARTITIONS)
    requests = requests_for(image)
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        requests.update_metadata(image.all_rows(), {})
        times.append(time.perf_counter() - started)
    return sorted(times)[ROUNDS // 2]


def kio_s() -> float:
    """kio's writer, for the same request at a smaller size."""
    from tests.wire import kio_update_metadata as kio

    image = an_image(FeatureLevel.FETCH_EPOCHS, BROKERS, KIO_TOPICS, PARTITIONS)
    update = requests_for(image).update_metadata(image.all_rows(), {})
    message = kio.convert(codec.opened(update), 8)
    assert kio.encode(message) == codec.encode(update, 8)
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        kio.encode(message)
        times.append(time.perf_counter() - started)
    return sorted(times)[ROUNDS // 2]


def run() -> list[Figure]:
    size = (BROKERS, TOPICS, PARTITIONS)
    shared = {count: measured(FeatureLevel.FETCH_EPOCHS, count, size) for count in CONNECTED}
    body = shared[1].body_bytes
    one, all_ = shared[1], shared[BROKERS]
    what = f"UpdateMetadata, {TOPICS * PARTITIONS:,} partitions"
    figures = [
        beside(
            f"{what}, {count} slow brokers, peak above the image",
            "MB",
            found.peak_bytes / 1e6,
            "aim",
            MEMORY_AIM_BYTES / 1e6,
            at_most=1,
        )
        for count, found in shared.items()
    ]
    figures += [
        beside(
            f"{what}, peak for {BROKERS} brokers against one",
            "MB",
            all_.peak_bytes / 1e6,
            "one broker",
            one.peak_bytes / 1e6,
            at_most=SPREAD_AIM,
        ),
        beside(f"{what}, peak against the body", "MB", all_.peak_bytes / 1e6, "body", body / 1e6),
        beside(
            f"{what}, kernel buffers of {BROKERS} that stand still",
            "MB",
            all_.kernel_bytes / 1e6,
            "body",
            body / 1e6,
        ),
        beside(
            f"{what}, told to all {BROKERS}",
            "s",
            all_.all_told_s,
            "one broker",
            one.all_told_s,
        ),
    ]
    encode_s = encoding_s(TOPICS)
    figures.append(beside(f"{what}, body encoded", "s", encode_s, "aim", ENCODE_AIM_S, at_most=1))
    kio_all_s = kio_s() * TOPICS / KIO_TOPICS
    name = f"{what}, body encoded (kio: {KIO_TOPICS * PARTITIONS:,}, times {TOPICS // KIO_TOPICS})"
    figures.append(beside(name, "s", encode_s, "kio", kio_all_s))
    brokers, topics, partitions = SMALL
    alone = measured(FeatureLevel.HEARTBEATS, brokers, SMALL)
    each = alone.peak_bytes / (brokers * topics * partitions)
    figures.append(
        beside(
            f"{what}, {BROKERS} brokers without sharing (from {brokers} x {topics * partitions:,})",
            "GB",
            each * BROKERS * TOPICS * PARTITIONS / 1e9,
            f"{FORMULA_BYTES} B each",
            FORMULA_BYTES * BROKERS * TOPICS * PARTITIONS / 1e9,
        )
    )
    return figures


def main(arguments: list[str]) -> None:
    step, *numbers = arguments
    if step == "readers":
        readers(int(numbers[0]))
        return
    port, level, connected, brokers, topics, partitions = map(int, numbers)
    image = an_image(FeatureLevel(level), brokers, topics, partitions)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        found = runner.run(push(port, connected, FeatureLevel(level), image))
    sys.stdout.write(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
