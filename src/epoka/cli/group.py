"""`epoka group`: consumer groups of any cluster, as kafka-consumer-groups.sh shows and changes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from re import fullmatch

import msgspec

from epoka.cli.brokers import asking, name, offsets_at, partitions
from epoka.cli.output import EXIT_GOOD, Failed, plural, say, say_json, table, usage
from epoka.client import groups
from epoka.client.cluster import EARLIEST, LATEST, ClusterClient, TopicPartition

IDLE = ("Empty", "Dead")

Offsets = dict[TopicPartition, int | None]
Goal = Callable[[ClusterClient, Offsets], Offsets]
"""Where offsets shall go, from where they are; None for a partition that has none."""


class OffsetLine(msgspec.Struct, frozen=True):
    """Where a group stands in one partition; None where nothing is known."""

    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None


class ResetLine(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    before: int | None
    after: int


def list_groups(bootstrap: str | None, data: Path | None, state: str | None, json: bool) -> int:
    with asking(bootstrap, data) as client:
        lines = groups.list_groups(client)
    if state is not None:
        wanted = {each.strip().lower() for each in state.split(",")}
        lines = [line for line in lines if line.state.lower() in wanted]
    if json:
        say_json(lines)
    elif lines:
        rows = [(line.group, line.state, line.protocol_type, line.coordinator) for line in lines]
        table(("group", "state", "type", "coordinator"), rows)
    else:
        say("no groups")
    return EXIT_GOOD


def describe_group(group: str, bootstrap: str | None, data: Path | None, members: bool, json: bool) -> int:
    with asking(bootstrap, data) as client:
        known = groups.describe(client, group)
        offsets = groups.committed(client, group)
        if not known.exists and not offsets:
            raise Failed(f"there is no group {group} (GROUP_ID_NOT_FOUND)")
        lines = _offset_lines(client, known, offsets)
    if json:
        say_json({**msgspec.to_builtins(known), "offsets": msgspec.to_builtins(lines)})
        return EXIT_GOOD
    say(
        f"group {group}: {known.state}, {plural(len(known.members), 'member')}, "
        f"coordinator {known.coordinator}" + (f", assignor {known.protocol}" if known.protocol else "")
    )
    if members:
        table(
            ("consumer-id", "host", "client-id", "partitions"),
            [
                (m.member_id, m.host, m.client_id, [name(each) for each in m.partitions])
                for m in known.members
            ],
        )
    elif lines:
        table(
            (
                "topic",
                "partition",
                "current-offset",
                "log-end-offset",
                "lag",
                "consumer-id",
                "host",
                "client-id",
            ),
            [msgspec.structs.astuple(line) for line in lines],
        )
    return EXIT_GOOD


def reset_offsets(
    group: str,
    bootstrap: str | None,
    data: Path | None,
    topic: list[str],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    shift_by: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    execute: bool,
    json: bool,
) -> int:
    goals: list[tuple[bool, Goal]] = [
        (to_earliest, _at(EARLIEST)),
        (to_latest, _at(LATEST)),
        (to_current, lambda client, before: dict(before)),
        (to_offset is not None, lambda client, before: dict.fromkeys(before, to_offset or 0)),
        (shift_by is not None, _shift(shift_by or 0)),
        (to_datetime is not None, _since(_time(to_datetime) if to_datetime else 0)),
        (by_duration is not None, _since(_ago(by_duration) if by_duration else 0)),
    ]
    chosen = [goal for asked, goal in goals if asked]
    if len(chosen) != 1:
        usage(
            "say where to: one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, "
            "--to-datetime, --by-duration"
        )
    if bool(topic) == all_topics:
        usage("say which topics: --topic TOPIC[:PARTITION,...], or --all-topics")
    wanted = [_scope(each) for each in topic]
    with asking(bootstrap, data) as client:
        known = groups.describe(client, group)
        if known.state not in IDLE:
            raise Failed(f"group {group} is {known.state}; offsets are reset when it has no members")
        committed = groups.committed(client, group)
        before = _before(client, wanted, committed, all_topics)
        if not before:
            raise Failed(f"group {group} has no offsets to reset")
        after = _within(client, chosen[0](client, before))
        if not after:
            raise Failed(f"group {group} has committed nothing there that could be moved")
        if execute:
            client.commit(group, after)
    lines = [ResetLine(*each, before[each], after[each]) for each in sorted(after)]
    if json:
        say_json({"group": group, "executed": execute, "offsets": msgspec.to_builtins(lines)})
    else:
        table(("topic", "partition", "before", "after"), [msgspec.structs.astuple(line) for line in lines])
        if not execute:
            say("nothing was changed; --execute does it")
    return EXIT_GOOD


def delete_group(group: str, bootstrap: str | None, data: Path | None, json: bool) -> int:
    with asking(bootstrap, data) as client:
        groups.delete(client, group)
    if json:
        say_json({"deleted": group})
    else:
        say(f"deleted {group}")
    return EXIT_GOOD


def _offset_lines(
    client: ClusterClient, known: groups.Group, offsets: dict[TopicPartition, int]
) -> list[OffsetLine]:
    owners = {each: member for member in known.members for each in member.partitions}
    wanted = sorted({*offsets, *owners})
    there = {
        topic.name for topic in client.metadata({topic for topic, _ in wanted}).topics if not topic.error_code
    }
    ends = offsets_at(client, [each for each in wanted if each[0] in there], LATEST)
    lines = []
    for each in wanted:
        current, end, owner = offsets.get(each), ends.get(each), owners.get(each)
        lag = None if current is None or end is None else max(0, end - current)
        lines.append(
            OffsetLine(
                *each,
                current,
                end,
                lag,
                owner.member_id if owner else None,
                owner.host if owner else None,
                owner.client_id if owner else None,
            )
        )
    return lines


# Where offsets go.


def _at(when: int) -> Goal:
    return lambda client, before: dict(offsets_at(client, [*before], when))


def _shift(by: int) -> Goal:
    def shifted(client: ClusterClient, before: Offsets) -> Offsets:
        return {each: None if offset is None else offset + by for each, offset in before.items()}

    return shifted


def _since(time_ms: int) -> Goal:
    def since(client: ClusterClient, before: Offsets) -> Offsets:
        found = offsets_at(client, [*before], time_ms)
        late = offsets_at(client, [each for each, offset in found.items() if offset < 0], LATEST)
        return {**found, **late}

    return since


def _before(
    client: ClusterClient,
    wanted: list[tuple[str, list[int] | None]],
    committed: dict[TopicPartition, int],
    all_topics: bool,
) -> Offsets:
    """What is to be reset, with the offsets that are committed now."""
    if all_topics:
        return dict(committed)
    found: Offsets = {}
    for topic, only in wanted:
        there = partitions(client, topic)
        for partition in there if only is None else only:
            if partition not in there:
                raise Failed(f"{topic} has no partition {partition}")
            found[topic, partition] = committed.get((topic, partition))
    return found


def _within(client: ClusterClient, goals: Offsets) -> dict[TopicPartition, int]:
    """The goals, brought into what each log holds; partitions without a goal are left out."""
    known = {each: goal for each, goal in goals.items() if goal is not None}
    first, end = (offsets_at(client, [*known], when) for when in (EARLIEST, LATEST))
    return {each: min(max(goal, first[each]), end[each]) for each, goal in known.items()}


def _scope(text: str) -> tuple[str, list[int] | None]:
    topic, separator, partitions = text.partition(":")
    if not separator:
        return topic, None
    try:
        return topic, [int(each) for each in partitions.split(",")]
    except ValueError:
        usage(f"partitions are written as TOPIC:0,1,2, not {text!r}")


def _time(text: str) -> int:
    """An ISO 8601 time in milliseconds; without an offset it is UTC, as in Kafka's tools."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        usage(f"a time is written as 2026-01-31T12:00:00.000, not {text!r}")
    # Times below zero mean something else to a broker.
    return max(0, int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))


def _ago(text: str) -> int:
    """The time that an ISO 8601 duration ago was."""
    match = fullmatch(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", text)
    if match is None or not any(match.groups()):
        usage(f"a duration is written as P1DT2H30M10S, not {text!r}")
    days, hours, minutes, seconds = (float(each or 0) for each in match.groups())
    try:
        ago = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return max(0, int((datetime.now(UTC) - ago).timestamp() * 1000))
    except OverflowError:
        return 0
