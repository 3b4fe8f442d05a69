"""The numbers and names of a cluster as types, so that one can't be passed for another.

Nothing is decided here.
"""

from __future__ import annotations

from typing import Final, NewType
from uuid import UUID

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""The generation of one life of a broker: in log mode the offset of its registration record."""
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
ControllerEpoch = NewType("ControllerEpoch", int)
TopicId = NewType("TopicId", UUID)

NO_BROKER: Final = BrokerId(-1)
"""The leader of a partition that has none."""
NO_EPOCH: Final = BrokerEpoch(-1)
"""A generation that is not known or not given."""
ZERO_TOPIC_ID: Final = TopicId(UUID(int=0))
