"""What a leader asks of a fetch before it believes anything in it."""

from __future__ import annotations

from epoka.fencing.verdict import Verdict, accept, refuse, rule
from epoka.wire.error_codes import ErrorCode


@rule(
    "fetch.generation",
    asked_by="leader, on a follower's fetch",
    refuses_when="the fetch carries a generation below the one of an unfenced broker in its metadata",
    answer="NOT_LEADER_OR_FOLLOWER",
)
def generation(given_epoch: int, metadata_epoch: int | None) -> Verdict:
    """A fetch of an earlier life must not move what is known of the present one (KAFKA-15221).

    `metadata_epoch` is None when the metadata knows no unfenced broker of that id.
    """
    if given_epoch != -1 and metadata_epoch is not None and given_epoch < metadata_epoch:
        return refuse(
            "fetch.generation",
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            given=given_epoch,
            expected=f">= {metadata_epoch}",
            reason="an earlier life of the follower sent the fetch",
        )
    return accept("fetch.generation")


@rule(
    "fetch.leader-epoch",
    asked_by="leader, on a fetch and every other request that names a leader epoch",
    refuses_when="the leader epoch is not -1 and differs from the leader's",
    answer="FENCED_LEADER_EPOCH when below, UNKNOWN_LEADER_EPOCH when above",
)
def leader_epoch(given_epoch: int, own_epoch: int) -> Verdict:
    if given_epoch == -1 or given_epoch == own_epoch:
        return accept("fetch.leader-epoch")
    below = given_epoch < own_epoch
    return refuse(
        "fetch.leader-epoch",
        ErrorCode.FENCED_LEADER_EPOCH if below else ErrorCode.UNKNOWN_LEADER_EPOCH,
        given=given_epoch,
        expected=own_epoch,
        reason="the sender knows an earlier leadership" if below else "the sender knows a later leadership",
    )
