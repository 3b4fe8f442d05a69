"""What a client does in a `ZkWorld`: topics are named, because ids do not travel below `eligible-isr`."""

from __future__ import annotations

import msgspec

from epoka.wire.error_codes import ErrorCode
from tests.broker.client import fetch_request, values
from tests.broker.zk_world import ZkWorld


def read(world: ZkWorld, broker: int, topic: str, offset: int = 0) -> list[bytes]:
    request = fetch_request(world, topic, offset)
    named = tuple(msgspec.structs.replace(each, topic=topic) for each in request.topics)
    answer = world.call(broker, msgspec.structs.replace(request, topics=named), 12)
    part = answer.responses[0].partitions[0]
    assert part.error_code == ErrorCode.NONE, part
    return values(part)


def leads(world: ZkWorld, broker: int, topic: str) -> bool:
    replica = world.broker(broker).replicas.by_name.get((topic, 0))
    return replica is not None and replica.leadership is not None


def follows(world: ZkWorld, broker: int, topic: str) -> bool:
    replica = world.broker(broker).replicas.by_name.get((topic, 0))
    return replica is not None and world.broker(broker).following.follows(replica)
