"""The controller's own events on their way to the topic `__epoka_ledger`, and the making of that topic.

The topic is made as soon as enough brokers are active for its replication factor; until then, and while it
has no leader, events wait in the outbox. Losing them never stands in the way of a decision.
"""

from __future__ import annotations

from typing import Final

from epoka.controller.state import ControllerState
from epoka.model.events import Send
from epoka.model.ledger import LedgerEvent
from epoka.model.ledger_outbox import PRODUCE_VERSION, TIMEOUT_MS, TOPIC, LedgerOutbox
from epoka.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from epoka.wire.messages.produce import ProduceResponse

SETTINGS: Final = (("retention.ms", "604800000"), ("min.insync.replicas", "1"))


class LedgerTopic:
    def __init__(self, state: ControllerState, first_token: int = 0) -> None:
        self._state = state
        self._outbox = LedgerOutbox()
        self._token = first_token

    @property
    def wanted(self) -> bool:
        return self._state.config.ledger_replication_factor > 0

    @property
    def due(self) -> int | None:
        return self._outbox.due if self.wanted else None

    def add(self, event: LedgerEvent, now: int) -> None:
        if self.wanted:
            self._outbox.add(event, now)

    def creation(self) -> CreateTopicsRequest | None:
        """The request that makes the topic, when it is missing and can be made."""
        wanted = self._state.config.ledger_replication_factor
        image = self._state.image
        if not self.wanted or image.topic(TOPIC) is not None:
            return None
        if sum(broker.active for broker in image.brokers.values()) < wanted:
            return None
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=1,
            replication_factor=wanted,
            configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in SETTINGS),
        )
        return CreateTopicsRequest(topics=(topic,))

    def send(self, now: int) -> list[Send]:
        """The next request to the topic's leader, if it is time for one and there is a leader."""
        due = self.due
        if due is None or due > now:
            return []
        partition = self._state.image.partition(TOPIC, 0)
        if partition is None or partition.leader < 0:
            self._outbox.put_off(now)
            return []
        request = self._outbox.request(now)
        if request is None:
            return []
        self._token += 1
        return [Send(partition.leader, self._token, request, PRODUCE_VERSION, 2 * TIMEOUT_MS)]

    def answered(self, token: int, answer: ProduceResponse | None, now: int) -> None:
        if token == self._token:
            self._outbox.answered(answer, now)
