"""The numbers and names of a cluster as types, so that one can't be passed for another.

Nothing is decided here.
"""

from __future__ import annotations

import re
from typing import Final, NewType
from uuid import UUID, uuid5

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""The generation of one life of a broker: in log mode the offset of its registration record."""
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
ControllerEpoch = NewType("ControllerEpoch", int)
TopicId = NewType("TopicId", UUID)

NO_BROKER: Final = BrokerId(-1)
"""The leader of a partition that has none."""
CONSUMER: Final = BrokerId(-1)
ONLOOKER: Final = BrokerId(-2)
"""Who asks for offsets or records without being a replica. An onlooker is answered by any replica, led or
not, as in Kafka."""
NO_EPOCH: Final = BrokerEpoch(-1)
"""A generation that is not known or not given."""
ZERO_TOPIC_ID: Final = TopicId(UUID(int=0))
MAX_TOPIC_NAME: Final = 249
_TOPIC_NAME: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{MAX_TOPIC_NAME}}}")
_BY_NAME: Final = UUID("1f0e5a5c-6d0b-5c0e-9a55-0e0f0d1c2b3a")


def is_topic_name(name: str) -> bool:
    """Whether a topic may be called so; whoever has a replica of it makes a folder of this name."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


def derived_topic_id(name: str) -> TopicId:
    """What every node calls a topic whose id nobody has told yet (zookeeper mode below `eligible-isr`)."""
    return TopicId(uuid5(_BY_NAME, name))
