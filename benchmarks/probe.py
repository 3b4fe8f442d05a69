"""The least that can stand in for a broker: takes frames off a socket, checks CRC32C, writes them to a file.

No log, no offsets on disk, no replication, no checks but the checksum: what a produce costs before a broker
does anything for it. Only librdkafka can talk to it, and only to write to one topic with one partition.

`python -m benchmarks.probe PORT FILE`
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from pathlib import Path
from typing import cast

import uvloop
from crc32c import crc32c

from epoka.wire import frame
from epoka.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from epoka.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from epoka.wire.records import HEADER_SIZE

TOPIC = "benchmark"
PRODUCE, METADATA, API_VERSIONS = 0, 3, 18
VERSIONS = {PRODUCE: (0, 7), METADATA: (0, 4), API_VERSIONS: (0, 0), 1: (0, 4), 2: (1, 1), 10: (0, 0)}
"""What it claims; librdkafka takes a broker for a modern one only when it sees Fetch and others, too."""

RECEIVE_BYTES = 4 * 1024 * 1024
_HEAD = struct.Struct(">hhih")
_INT = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ANSWER = struct.Struct(f">iiih{len(TOPIC)}siihqqqi")


class Probe(asyncio.BufferedProtocol):
    """One connection. It never asks for more than the frame it is in, so nothing has to be moved."""

    def __init__(self, port: int, file: int) -> None:
        self._port = port
        self._file = file
        self._buffer = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._wanted = 4
        self._next_offset = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._filled : self._wanted]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled < self._wanted:
            return
        if self._wanted == 4:
            self._wanted += _INT.unpack_from(self._buffer)[0]
            return
        stop = self._wanted
        self._filled, self._wanted = 0, 4
        self._answer(4, stop)

    def _answer(self, start: int, stop: int) -> None:
        key, version, correlation_id, client_id_size = _HEAD.unpack_from(self._buffer, start)
        position = start + _HEAD.size + max(client_id_size, 0)
        if key == PRODUCE:
            self._produce(position, stop, correlation_id)
        elif key == API_VERSIONS:
            self._write(API_VERSIONS, 0, correlation_id, _versions(version))
        elif key == METADATA:
            self._write(METADATA, version, correlation_id, _metadata(self._port))

    def _produce(self, position: int, stop: int, correlation_id: int) -> None:
        # Transactional id (null), acks, timeout, one topic, its name, one partition, its index, bytes.
        position += 2 + 2 + 4 + 4 + 2 + len(TOPIC) + 4 + 4 + 4
        batch = self._view[position:stop]
        (crc,) = _CRC.unpack_from(batch, 17)
        if crc32c(batch[21:]) != crc:
            raise ValueError("a batch with a bad checksum")
        (count,) = _INT.unpack_from(batch, HEADER_SIZE - 4)
        written = os.writev(self._file, [batch])
        assert written == len(batch)
        base = self._next_offset
        self._next_offset += count
        size = _ANSWER.size - 4
        self._transport.write(
            _ANSWER.pack(size, correlation_id, 1, len(TOPIC), TOPIC.encode(), 1, 0, 0, base, -1, 0, 0)
        )

    def _write(self, key: int, version: int, correlation_id: int, message: object) -> None:
        self._transport.writelines(frame.encode_response(key, version, correlation_id, message))


def _versions(asked: int) -> ApiVersionsResponse:
    keys = tuple(ApiVersion(key, low, high) for key, (low, high) in sorted(VERSIONS.items()))
    return ApiVersionsResponse(error_code=35 if asked > 0 else 0, api_keys=keys)


def _metadata(port: int) -> MetadataResponse:
    return MetadataResponse(
        brokers=(MetadataResponseBroker(1, "127.0.0.1", port),),
        controller_id=1,
        topics=(
            MetadataResponseTopic(
                name=TOPIC,
                partitions=(MetadataResponsePartition(0, 0, 1, replica_nodes=(1,), isr_nodes=(1,)),),
            ),
        ),
    )


async def serve(port: int, path: Path) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Probe(port, file), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
