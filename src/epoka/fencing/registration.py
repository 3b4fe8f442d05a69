"""What the controller asks of a broker that registers, and of the generation of every later request."""

from __future__ import annotations

from uuid import UUID

from epoka.fencing.verdict import Verdict, accept, refuse, rule
from epoka.wire.error_codes import ErrorCode


@rule(
    "registration.cluster",
    asked_by="controller, on BrokerRegistration and FetchMetadata",
    refuses_when="the cluster id is another one",
    answer="INCONSISTENT_CLUSTER_ID",
)
def cluster(given_cluster_id: str, own_cluster_id: str) -> Verdict:
    if given_cluster_id != own_cluster_id:
        return refuse(
            "registration.cluster",
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            given=given_cluster_id,
            expected=own_cluster_id,
            reason="the broker belongs to another cluster",
        )
    return accept("registration.cluster")


@rule(
    "registration.incarnation",
    asked_by="controller, on BrokerRegistration",
    refuses_when="another incarnation of the id is unfenced and has a session, and the log directories do "
    "not show that this one came after it",
    answer="DUPLICATE_BROKER_REGISTRATION",
)
def incarnation(
    given: UUID, registered: UUID | None, *, session_valid: bool, has_its_disk: bool = False
) -> Verdict:
    """The same incarnation always passes: it only did not hear the first answer.

    So does another one that has the log directories of the registered one and found its generation in them:
    they are locked by whoever uses them, so that life is over, whatever its session says (a restart must not
    wait for it, KAFKA-19047). The directories alone prove nothing: lives before it had them, too.
    """
    if session_valid and registered is not None and given != registered and not has_its_disk:
        return refuse(
            "registration.incarnation",
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            given=given,
            expected=registered,
            reason="another process with this broker id is alive",
        )
    return accept("registration.incarnation")


@rule(
    "requester.generation",
    asked_by="controller, on AlterPartition and AllocateProducerIds",
    refuses_when="the requester's generation is not the registered one; -1 too",
    answer="STALE_BROKER_EPOCH",
)
def requester(given_epoch: int, registered_epoch: int | None) -> Verdict:
    if given_epoch != registered_epoch:
        return refuse(
            "requester.generation",
            ErrorCode.STALE_BROKER_EPOCH,
            given=given_epoch,
            expected="registered" if registered_epoch is None else registered_epoch,
            reason="another life of this broker sent the request"
            if registered_epoch is not None
            else "the broker is not registered",
        )
    return accept("requester.generation")
