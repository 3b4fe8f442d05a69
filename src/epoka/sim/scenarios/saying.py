"""A message in a few words: the numbers that the rules compare, and not much else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from epoka.wire import records
from epoka.wire.error_codes import ErrorCode

NameOf = Callable[[Any], str]
_NO_BROKER = -1


def about(message: Any, name_of: NameOf) -> str:
    """What the message says, without its name."""
    teller = _TELLERS.get(type(message).__name__)
    if teller is not None:
        return teller(message, name_of)
    code = getattr(message, "error_code", None)
    return "" if code is None else _error(code)


def _error(code: int) -> str:
    return "accepted" if code == 0 else ErrorCode.of(code).name


def _epochs(message: Any) -> str:
    """The generation that a control request carries, whichever it is."""
    greatest = getattr(message, "max_broker_epoch", -1)
    if greatest != -1:
        return f"max broker epoch {greatest}"
    return f"broker epoch {message.broker_epoch}"


def _alter_partition(message: Any, name_of: NameOf) -> str:
    told = []
    for topic in message.topics:
        name = topic.topic_name or name_of(topic.topic_id)
        for each in topic.partitions:
            members = [
                f"{member.broker_id} (epoch {member.broker_epoch})" for member in each.new_isr_with_epochs
            ] or [str(member) for member in each.new_isr]
            told.append(
                f"{name}-{each.partition_index}: ISR {', '.join(members)}; leader epoch {each.leader_epoch}, "
                f"partition epoch {each.partition_epoch}"
            )
    return f"{'; '.join(told)}; from epoch {message.broker_epoch}"


def _alter_partition_answer(message: Any, name_of: NameOf) -> str:
    if message.error_code:
        return _error(message.error_code)
    return "; ".join(
        f"{topic.topic_name or name_of(topic.topic_id)}-{each.partition_index}: "
        + (
            _error(each.error_code)
            if each.error_code
            else f"ISR {_list(each.isr)}, partition epoch {each.partition_epoch}"
        )
        for topic in message.topics
        for each in topic.partitions
    )


def _isr_change(message: Any, name_of: NameOf) -> str:
    told = [
        f"{topic.topic_name}-{each.partition_index}: ISR {_list(each.isr_nodes)}; "
        f"leader epoch {each.leader_epoch}"
        for topic in message.topics
        for each in topic.partitions
    ]
    return f"{'; '.join(told)}; incarnation {message.incarnation_id}"


def _list(members: Any) -> str:
    return ", ".join(map(str, members)) or "nobody"


def _states(message: Any) -> list[tuple[str, Any]]:
    """Partition states by topic, however the version nests them."""
    found = [(topic.topic_name, each) for topic in message.topic_states for each in topic.partition_states]
    return found + [(each.topic_name, each) for each in message.ungrouped_partition_states]


def _leader_and_isr(message: Any, name_of: NameOf) -> str:
    told = [
        f"{name}-{each.partition_index}: leader {each.leader}, leader epoch {each.leader_epoch}, "
        f"ISR {_list(each.isr)}"
        for name, each in _states(message)
        if not name.startswith("__")
    ]
    return "; ".join([_epochs(message), *told])


def _update_metadata(message: Any, name_of: NameOf) -> str:
    names = sorted({name for name, _ in _states(message) if not name.startswith("__")})
    living = _list(sorted(each.id for each in message.live_brokers))
    return "; ".join([_epochs(message), f"brokers {living}", *names])


def _stop_replica(message: Any, name_of: NameOf) -> str:
    told: list[str] = []
    told += [f"{each.topic_name}-{each.partition_index}" for each in message.ungrouped_partitions]
    for topic in message.topics:
        told += [f"{topic.name}-{index}" for index in topic.partition_indexes]
    return f"{_epochs(message)}; stop {', '.join(told) or 'nothing'}"


def _heartbeat(message: Any, name_of: NameOf) -> str:
    wants = []
    if message.want_fence:
        wants.append("be fenced")
    if message.want_shut_down:
        wants.append("stop")
    return f"epoch {message.broker_epoch}" + (f", wants to {' and to '.join(wants)}" if wants else "")


_STATES = ("initial", "inactive", "active", "stopping")


def _metadata_heartbeat(message: Any, name_of: NameOf) -> str:
    return f"incarnation {message.incarnation_id}, wants to be {_STATES[message.target_state]}"


def _metadata_heartbeat_answer(message: Any, name_of: NameOf) -> str:
    if message.error_code:
        return _error(message.error_code)
    return f"you are {_STATES[message.current_state]}"


def _heartbeat_answer(message: Any, name_of: NameOf) -> str:
    if message.error_code:
        return _error(message.error_code)
    said = ["fenced" if message.is_fenced else "active"]
    if message.should_shut_down:
        said.append("may go")
    return f"you are {', you '.join(said)}"


def _registration(message: Any, name_of: NameOf) -> str:
    return f"broker {message.broker_id}, incarnation …{message.incarnation_id.hex[-4:]}"


def _registration_answer(message: Any, name_of: NameOf) -> str:
    return _error(message.error_code) if message.error_code else f"epoch {message.broker_epoch}"


def _fetch(message: Any, name_of: NameOf) -> str:
    follower = message.replica_state.replica_id
    follower = message.replica_id if follower == _NO_BROKER else follower
    who = "" if follower == _NO_BROKER else f"follower {follower}"
    if follower != _NO_BROKER and message.replica_state.replica_epoch != -1:
        who += f" (epoch {message.replica_state.replica_epoch})"
    told = [
        f"{topic.topic or name_of(topic.topic_id)}-{each.partition} from offset {each.fetch_offset}"
        + (f", leader epoch {each.current_leader_epoch}" if each.current_leader_epoch >= 0 else "")
        for topic in message.topics
        for each in topic.partitions
        if not (topic.topic or name_of(topic.topic_id)).startswith("__")
    ]
    return "; ".join(part for part in (who, *told) if part)


def _fetch_answer(message: Any, name_of: NameOf) -> str:
    told = []
    for topic in message.responses:
        for each in topic.partitions:
            if each.error_code:
                told.append(_error(each.error_code))
            elif each.diverging_epoch.epoch >= 0:
                told.append(
                    f"cut your log: epoch {each.diverging_epoch.epoch} ends at offset "
                    f"{each.diverging_epoch.end_offset}"
                )
            else:
                values = _values(each.records)
                told.append(f"{_quoted(values)}, high watermark {each.high_watermark}")
    return "; ".join(told) or _error(message.error_code)


def _values(batches: Any) -> list[bytes]:
    content = memoryview(bytes(batches or b""))
    return [
        bytes(record.value or b"")
        for position, header in records.headers(content)
        for record in records.decode_batch(content, position, header)
    ]


def _quoted(values: list[bytes]) -> str:
    return ", ".join(f"“{value.decode(errors='replace')}”" for value in values) or "nothing"


def _produce(message: Any, name_of: NameOf) -> str:
    told = [
        f"{topic.name}-{each.index}: {_quoted(_values(each.records))}"
        for topic in message.topic_data
        for each in topic.partition_data
    ]
    return f"{'; '.join(told)}, acks {'all' if message.acks == -1 else message.acks}"


def _produce_answer(message: Any, name_of: NameOf) -> str:
    return "; ".join(
        _error(each.error_code) if each.error_code else f"acknowledged at offset {each.base_offset}"
        for topic in message.responses
        for each in topic.partition_responses
    )


def _controlled_shutdown(message: Any, name_of: NameOf) -> str:
    return f"broker {message.broker_id}, broker epoch {message.broker_epoch}"


_TELLERS: dict[str, Callable[[Any, NameOf], str]] = {
    "AlterPartitionRequest": _alter_partition,
    "AlterPartitionResponse": _alter_partition_answer,
    "IsrChangeRequest": _isr_change,
    "LeaderAndIsrRequest": _leader_and_isr,
    "UpdateMetadataRequest": _update_metadata,
    "StopReplicaRequest": _stop_replica,
    "ControlledShutdownRequest": _controlled_shutdown,
    "BrokerHeartbeatRequest": _heartbeat,
    "BrokerHeartbeatResponse": _heartbeat_answer,
    "MetadataHeartbeatRequest": _metadata_heartbeat,
    "MetadataHeartbeatResponse": _metadata_heartbeat_answer,
    "BrokerRegistrationRequest": _registration,
    "BrokerRegistrationResponse": _registration_answer,
    "FetchRequest": _fetch,
    "FetchResponse": _fetch_answer,
    "ProduceRequest": _produce,
    "ProduceResponse": _produce_answer,
}
