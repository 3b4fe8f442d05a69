"""A controller core on a virtual clock, with short words for what brokers and clients ask of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from epoka.controller import ControllerConfig, ControllerCore, MemoryMetadataLog, MetadataLog
from epoka.fencing import ALL_RULES, Rules
from epoka.model.events import Effect, Peer, Report, Request, Respond, Wake
from epoka.model.image import ClusterImage
from epoka.model.ledger import LedgerEvent
from epoka.model.levels import FEATURE_NAME, HIGHEST, FeatureLevel
from epoka.model.partitions import PartitionState
from epoka.wire.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionPartition,
    AlterPartitionPartitionResponse,
    AlterPartitionRequest,
    AlterPartitionTopic,
)
from epoka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from epoka.wire.messages.broker_registration import (
    BrokerListener,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    SupportedFeature,
)
from epoka.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

CLUSTER_ID = "the-cluster"
TIMEOUT_MS = 9_000
CONTROL = Peer(control=True, connection=1)


class Office:
    """The controller at work. `ledger` collects everything it reported."""

    def __init__(
        self,
        level: FeatureLevel = HIGHEST,
        *,
        rules: Rules = ALL_RULES,
        log: MetadataLog | None = None,
        **config: Any,
    ) -> None:
        self.now = 1_000_000
        self.log = log or MemoryMetadataLog()
        self.rules = rules
        config.setdefault("auto_leader_rebalance", False)
        self.config = ControllerConfig(initial_level=level, session_timeout_ms=TIMEOUT_MS, **config)
        self.ledger: list[LedgerEvent] = []
        self._ids = itertools.count(0x1000)
        self._tokens = itertools.count(1)
        self.core: ControllerCore
        self.restart()

    def restart(self, log: MetadataLog | None = None) -> None:
        """The controller dies and another one reads its log."""
        self.log = log or self.log
        self.core = ControllerCore(
            100, CLUSTER_ID, self.log, self.config, new_id=self.new_id, rules=self.rules
        )
        self.keep(self.core.start(self.now))

    def new_id(self) -> UUID:
        return UUID(int=next(self._ids))

    @property
    def image(self) -> ClusterImage:
        return self.core.image

    def keep(self, effects: Sequence[Effect]) -> Sequence[Effect]:
        self.ledger += [effect.event for effect in effects if isinstance(effect, Report)]
        return effects

    def send(self, message: Any, version: int = 0, peer: Peer = CONTROL) -> tuple[int, Sequence[Effect]]:
        token = next(self._tokens)
        return token, self.keep(self.core.handle(Request(token, version, message, peer), self.now))

    def ask(self, message: Any, version: int = 0, peer: Peer = CONTROL) -> Any:
        """The answer to a request that is answered at once."""
        token, effects = self.send(message, version, peer)
        return next(
            effect.message for effect in effects if isinstance(effect, Respond) and effect.token == token
        )

    def wake(self) -> Sequence[Effect]:
        return self.keep(self.core.handle(Wake(), self.now))

    def pass_time(self, ms: int) -> None:
        """Time goes by; the controller is woken whenever it asked to be."""
        end = self.now + ms
        while self.core.deadline is not None and self.core.deadline <= end:
            self.now = max(self.now, self.core.deadline)
            self.wake()
        self.now = end

    def events(self, kind: str) -> list[LedgerEvent]:
        return [event for event in self.ledger if event.kind == kind]

    # Brokers.

    def registration(self, broker_id: int, life: int = 1, **changes: Any) -> BrokerRegistrationRequest:
        """What broker `broker_id` sends in its `life`-th life; its log directory stays the same, and knows
        the generation that is registered."""
        fields: dict[str, Any] = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": UUID(int=abs(broker_id) << 32 | life),
            "listeners": (BrokerListener("PLAINTEXT", f"host-{broker_id}", 9092, 0),),
            "features": (SupportedFeature(FEATURE_NAME, FeatureLevel.HEARTBEATS, HIGHEST),),
            "log_dirs": (UUID(int=abs(broker_id) << 64 | 0xFFFF),),
            "last_broker_epoch": self.epoch(broker_id),
            **changes,
        }
        return BrokerRegistrationRequest(**fields)

    def register(self, broker_id: int, life: int = 1, **changes: Any) -> BrokerRegistrationResponse:
        response = self.ask(self.registration(broker_id, life, **changes), 4)
        assert isinstance(response, BrokerRegistrationResponse)
        return response

    def epoch(self, broker_id: int) -> int:
        broker = self.image.broker(broker_id)
        return broker.epoch if broker else -1

    def heartbeat(self, broker_id: int, **fields: Any) -> BrokerHeartbeatResponse:
        """By default: of the registered generation, caught up, content."""
        fields.setdefault("broker_epoch", self.epoch(broker_id))
        fields.setdefault("current_metadata_offset", self.image.offset)
        response = self.ask(BrokerHeartbeatRequest(broker_id=broker_id, **fields))
        assert isinstance(response, BrokerHeartbeatResponse)
        return response

    def join(self, *broker_ids: int, life: int = 1, **changes: Any) -> None:
        """Register and unfence."""
        for broker_id in broker_ids:
            assert self.register(broker_id, life, **changes).error_code == 0
            assert not self.heartbeat(broker_id).is_fenced

    def fence(self, broker_id: int) -> None:
        assert self.heartbeat(broker_id, want_fence=True).is_fenced

    def stop(self, broker_id: int) -> BrokerHeartbeatResponse:
        return self.heartbeat(broker_id, want_shut_down=True)

    # Topics.

    def create(self, name: str, *assignments: Sequence[int], **configs: str) -> UUID:
        """A topic with that assignment; configs with dashes for dots are written with underscores."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=tuple(
                CreatableReplicaAssignment(index, tuple(brokers)) for index, brokers in enumerate(assignments)
            ),
            configs=tuple(
                CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()
            ),
        )
        (result,) = self.ask(CreateTopicsRequest(topics=(topic,)), 7).topics
        assert result.error_code == 0, result.error_message
        return result.topic_id

    def partition(self, name: str, index: int = 0) -> PartitionState:
        state = self.image.partition(name, index)
        assert state is not None
        return state

    def propose(
        self,
        name: str,
        isr: Sequence[int],
        *,
        index: int = 0,
        version: int = 3,
        epochs: dict[int, int] | None = None,
        leader: int | None = None,
        broker_epoch: int | None = None,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        recovery: int = 0,
    ) -> AlterPartitionPartitionResponse:
        """What the leader gets for proposing that ISR, with everything else right unless said otherwise."""
        response = self.ask(
            self.proposal(
                name,
                isr,
                index=index,
                version=version,
                epochs=epochs,
                leader=leader,
                broker_epoch=broker_epoch,
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
                recovery=recovery,
            ),
            version,
        )
        assert response.error_code == 0, response.error_code
        return response.topics[0].partitions[0]

    def proposal(
        self,
        name: str,
        isr: Sequence[int],
        *,
        index: int = 0,
        version: int = 3,
        epochs: dict[int, int] | None = None,
        leader: int | None = None,
        broker_epoch: int | None = None,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        recovery: int = 0,
    ) -> AlterPartitionRequest:
        state = self.partition(name, index)
        topic = self.image.topic(name)
        assert topic is not None
        requester = state.leader if leader is None else leader
        known = {broker_id: self.epoch(broker_id) for broker_id in isr} | (epochs or {})
        return AlterPartitionRequest(
            broker_id=requester,
            broker_epoch=self.epoch(requester) if broker_epoch is None else broker_epoch,
            topics=(
                AlterPartitionTopic(
                    topic_name=name if version < 2 else "",
                    topic_id=topic.id,
                    partitions=(
                        AlterPartitionPartition(
                            partition_index=index,
                            leader_epoch=state.leader_epoch if leader_epoch is None else leader_epoch,
                            new_isr=tuple(isr) if version < 3 else (),
                            new_isr_with_epochs=tuple(
                                AlterPartitionBrokerState(broker_id, known[broker_id]) for broker_id in isr
                            )
                            if version >= 3
                            else (),
                            leader_recovery_state=recovery,
                            partition_epoch=state.partition_epoch
                            if partition_epoch is None
                            else partition_epoch,
                        ),
                    ),
                ),
            ),
        )


def check_invariants(image: ClusterImage) -> None:
    """KIP-841 and the rest of what must hold after every step, at the levels that promise it."""
    for ref in image.all_partitions():
        state = image.state(ref)
        about = f"{ref.topic.name}-{ref.index} {state}"
        assert state.isr, about
        assert len(set(state.isr)) == len(state.isr), about
        assert set(state.isr) <= set(state.replicas), about
        assert state.leader == -1 or state.leader in state.isr, about
        barred = []
        for member in state.isr:
            broker = image.broker(member)
            if broker is None or not broker.active:
                barred.append(member)
        if barred:
            assert len(state.isr) == 1 and state.leader == -1, about
        assert set(state.adding) <= set(state.replicas), about
        assert set(state.removing) <= set(state.replicas), about
