"""Which topics a consumer subscribes to, read from the metadata it sends its assignor.

Every version of that metadata begins like version 0, so no more than that is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from epoka.wire.codec import decode_prefix
from epoka.wire.errors import WireError
from epoka.wire.messages.group_records import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_VERSION_BYTES: Final = 2


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members together, or None if one of them cannot be read."""
    topics: set[str] = set()
    for each in metadata:
        if len(each) < _VERSION_BYTES:
            return None
        try:
            subscription, _ = decode_prefix(ConsumerProtocolSubscription, 0, each, _VERSION_BYTES)
        except WireError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
