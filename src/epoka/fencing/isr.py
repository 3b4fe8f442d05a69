"""Who may be in an ISR, and whose proposal for one counts.

Asked by the controller on AlterPartition in the order of its checks, and in part by the leader before it
proposes, so that it does not ask for what will be refused.
"""

from __future__ import annotations

from epoka.fencing.verdict import Verdict, accept, refuse, rule
from epoka.wire.error_codes import ErrorCode


@rule(
    "isr.ahead",
    asked_by="controller, on AlterPartition",
    refuses_when="the leader epoch or the partition epoch is above the controller's",
    answer="NOT_CONTROLLER",
)
def ahead(
    leader_epoch: int, known_leader_epoch: int, partition_epoch: int, known_partition_epoch: int
) -> Verdict:
    """The leader knows more than we do: we are the one that has been replaced (KAFKA-14154)."""
    if leader_epoch > known_leader_epoch:
        return refuse(
            "isr.ahead",
            ErrorCode.NOT_CONTROLLER,
            given=f"leader epoch {leader_epoch}",
            expected=f"<= {known_leader_epoch}",
            reason="the leader has heard of a leader epoch that this controller has not",
        )
    if partition_epoch > known_partition_epoch:
        return refuse(
            "isr.ahead",
            ErrorCode.NOT_CONTROLLER,
            given=f"partition epoch {partition_epoch}",
            expected=f"<= {known_partition_epoch}",
            reason="the leader has heard of a partition epoch that this controller has not",
        )
    return accept("isr.ahead")


@rule(
    "isr.leader-epoch",
    asked_by="controller, on AlterPartition",
    refuses_when="the leader epoch is below the controller's",
    answer="FENCED_LEADER_EPOCH",
)
def leader_epoch(given: int, known: int) -> Verdict:
    if given < known:
        return refuse(
            "isr.leader-epoch",
            ErrorCode.FENCED_LEADER_EPOCH,
            given=given,
            expected=known,
            reason="the proposal comes from an earlier leadership",
        )
    return accept("isr.leader-epoch")


@rule(
    "isr.leader",
    asked_by="controller, on AlterPartition",
    refuses_when="the requester does not lead the partition",
    answer="INVALID_REQUEST",
)
def leader(requester: int, known_leader: int) -> Verdict:
    if requester != known_leader:
        return refuse(
            "isr.leader",
            ErrorCode.INVALID_REQUEST,
            given=requester,
            expected=known_leader,
            reason="only the leader may propose an ISR",
        )
    return accept("isr.leader")


@rule(
    "isr.partition-epoch",
    asked_by="controller, on AlterPartition",
    refuses_when="the partition epoch is below the controller's",
    answer="INVALID_UPDATE_VERSION",
)
def partition_epoch(given: int, known: int) -> Verdict:
    if given < known:
        return refuse(
            "isr.partition-epoch",
            ErrorCode.INVALID_UPDATE_VERSION,
            given=given,
            expected=known,
            reason="the partition has changed since the proposal was made",
        )
    return accept("isr.partition-epoch")


@rule(
    "isr.eligible",
    asked_by="controller, on AlterPartition and at creation; leader, before it proposes",
    refuses_when="a proposed member is unregistered, stopping or fenced",
    answer="INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED before AlterPartition v2",
)
def eligible(member: int, *, registered: bool, fenced: bool, stopping: bool) -> Verdict:
    """KIP-841. The first reason that holds is the one that is named."""
    if not registered:
        what = "not registered"
    elif stopping:
        what = "stopping"
    elif fenced:
        what = "fenced"
    else:
        return accept("isr.eligible")
    return refuse(
        "isr.eligible",
        ErrorCode.INELIGIBLE_REPLICA,
        given=f"broker {member} {what}",
        expected="an active broker",
        reason=f"broker {member} is {what}",
    )


@rule(
    "isr.generation",
    asked_by="controller, on AlterPartition",
    refuses_when="a proposed member's generation is not the registered one; "
    "-1 is refused for a member that is being added",
    answer="INELIGIBLE_REPLICA",
)
def generation(member: int, given_epoch: int, registered_epoch: int, *, being_added: bool) -> Verdict:
    """KIP-903, and one step further: there -1 passes for everybody, so an old version evades the rule."""
    if given_epoch == registered_epoch or (given_epoch == -1 and not being_added):
        return accept("isr.generation")
    return refuse(
        "isr.generation",
        ErrorCode.INELIGIBLE_REPLICA,
        given=f"broker {member} epoch {given_epoch}",
        expected=f"epoch {registered_epoch}",
        reason=f"broker {member} is added without its generation"
        if given_epoch == -1
        else f"broker {member} was seen in another life",
    )


@rule(
    "isr.fetched-generation",
    asked_by="leader, before it proposes to add a member",
    refuses_when="the member has not fetched in this leadership, is not in the metadata as unfenced, or "
    "fetched with a generation that is neither -1 nor the one in the metadata",
    answer="no proposal",
)
def fetched_generation(member: int, fetched_epoch: int | None, metadata_epoch: int | None) -> Verdict:
    """The generation comes from the fetch, never from the metadata, which only confirms it (KIP-903)."""
    if fetched_epoch is not None and metadata_epoch is not None and fetched_epoch in (-1, metadata_epoch):
        return accept("isr.fetched-generation")
    return refuse(
        "isr.fetched-generation",
        ErrorCode.INELIGIBLE_REPLICA,
        given=f"broker {member} epoch {'unknown' if fetched_epoch is None else fetched_epoch}",
        expected="an unfenced broker" if metadata_epoch is None else f"epoch {metadata_epoch}",
        reason=f"the fetch of broker {member} and the metadata do not speak of the same life",
    )
