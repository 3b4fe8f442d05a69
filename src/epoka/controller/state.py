"""What the handlers of the controller may look at. They look, and change nothing.

Holds the questions that several handlers ask: who may lead, who may be in an ISR, whose session is valid.
Each is one of the rules in `fencing/`, asked with what the image and the sessions know at the cluster's
level.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import msgspec

from epoka import fencing
from epoka.controller.config import ControllerConfig
from epoka.controller.sessions import Sessions
from epoka.fencing import Rules, Verdict
from epoka.model import topic_configs
from epoka.model.config_keys import Value
from epoka.model.ids import BrokerId
from epoka.model.image import BROKER_RESOURCE, ClusterImage
from epoka.model.levels import FeatureLevel


class ControllerState(msgspec.Struct):
    node_id: int
    cluster_id: str
    config: ControllerConfig
    rules: Rules
    image: ClusterImage
    sessions: Sessions
    new_id: Callable[[], UUID]
    """Draws a topic id; the runtime's, so that a simulator can repeat it."""
    pushes: bool = False
    """Zookeeper mode: state reaches brokers by control requests."""

    @property
    def renews_leaders(self) -> bool:
        """Leaders propose by IsrChange (KIP-343), which names no partition epoch: a proposal from before the
        controller changed the ISR itself would undo that, and a leader that hears of another change of the
        controller's cannot tell whether its proposal came before or after. So what the controller changes
        raises the leader epoch, by which the proposal is refused, as controllers of that time did."""
        return self.pushes and FeatureLevel.HEARTBEATS <= self.image.level < FeatureLevel.ELIGIBLE_ISR

    @property
    def next_offset(self) -> int:
        return self.image.offset + 1

    def registered_epoch(self, broker_id: int) -> int | None:
        broker = self.image.broker(broker_id)
        return broker.epoch if broker else None

    def stopping(self, broker_id: int) -> bool:
        """In controlled shutdown, by record or (below `eligible-isr`) by soft state alone."""
        broker = self.image.broker(broker_id)
        return broker is not None and (broker.in_controlled_shutdown or self.sessions.stopping(broker_id))

    def session_valid(self, broker_id: int, now: int) -> bool:
        """A fenced broker has no session that could stand in the way of its next life."""
        broker, session = self.image.broker(broker_id), self.sessions.get(broker_id)
        if broker is None or broker.fenced or session is None or session.epoch != broker.epoch:
            return False
        timeout_ms = self.config.session_timeout_ms
        return self.rules.ask(fencing.heartbeat.session, session.contact_ms, now, timeout_ms).accepted

    def may_join_isr(self, broker_id: int) -> Verdict:
        """KIP-841. Below its level only fenced brokers are kept out, where the controller chooses."""
        broker = self.image.broker(broker_id)
        return self.rules.ask(
            fencing.isr.eligible,
            broker_id,
            registered=broker is not None,
            fenced=broker is not None and broker.fenced,
            stopping=self.image.level >= FeatureLevel.ELIGIBLE_ISR and self.stopping(broker_id),
        )

    def may_lead(self, *, leaving: int | None = None, joining: int | None = None) -> Callable[[int], bool]:
        """Who may be elected by a decision that fences or stops `leaving`, or unfences `joining`."""
        # Where ControlledShutdown is older than KIP-841, its elections have always left such brokers out.
        counts_stopping = self.pushes or self.image.level >= FeatureLevel.ELIGIBLE_ISR
        known: dict[int, bool] = {}

        def ask(candidate: int) -> bool:
            broker = self.image.broker(candidate)
            return self.rules.ask(
                fencing.leader.eligible,
                candidate,
                registered=broker is not None,
                fenced=candidate != joining and broker is not None and broker.fenced,
                stopping=counts_stopping and self.stopping(candidate),
            ).accepted

        def may_lead(candidate: int) -> bool:
            if candidate == leaving:
                return False
            if candidate not in known:
                known[candidate] = ask(candidate)
            return known[candidate]

        return may_lead

    def topic_default(self, name: str) -> tuple[Value, str | None]:
        """A topic setting where the topic is silent, and the node key that says so."""
        dynamic = self.image.config(BROKER_RESOURCE, "")
        return topic_configs.default(name, {**self.config.topic_defaults, **dynamic})

    def unclean_allowed(self, topic: str) -> bool:
        name = "unclean.leader.election.enable"
        own = self.image.topic_config(topic).get(name)
        return bool(self.topic_default(name)[0]) if own is None else own.lower() == "true"

    def lowest_active_offset(self, *, leaving: BrokerId) -> int | None:
        """How far the slowest active broker has read the log; None when there is no other."""
        offsets = []
        for broker in self.image.brokers.values():
            if broker.id != leaving and not broker.fenced and not self.stopping(broker.id):
                session = self.sessions.get(broker.id)
                offsets.append(session.metadata_offset if session else -1)
        return min(offsets, default=None)
