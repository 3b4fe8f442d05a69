"""`epoka consume`: records of a topic to standard output, as `kcat -C` does it."""

from __future__ import annotations

import re
import sys
from itertools import islice
from pathlib import Path

from epoka.cli.brokers import asking, offsets_at, partitions
from epoka.cli.format import BadFormat, Writes, as_json, compiled, plain, unescaped
from epoka.cli.output import EXIT_GOOD, Failed, complain, usage
from epoka.client.cluster import EARLIEST, LATEST, ClusterClient
from epoka.client.reading import TopicReader

NAMES = {"beginning": EARLIEST, "earliest": EARLIEST, "end": LATEST, "latest": LATEST}
NEVER = 1 << 62
"""Beyond every offset."""


def consume(
    topic: str,
    bootstrap: str | None,
    data: Path | None,
    partition: int | None,
    offset: list[str],
    count: int | None,
    exit_at_end: bool,
    template: str | None,
    key_delimiter: str | None,
    delimiter: str,
    uncommitted: bool,
    timeout: float,
    json: bool,
) -> int:
    if sys.stdout is None:
        raise Failed("standard output is closed")
    write = _writer(template, key_delimiter, delimiter, json)
    start, stop = _offsets(offset)
    with asking(bootstrap, data) as client:
        there = partitions(client, topic)
        if partition is not None and partition not in there:
            raise Failed(f"{topic} has no partition {partition}; it has {len(there)}")
        chosen = there if partition is None else [partition]
        reader = TopicReader(
            client,
            topic,
            _positions(client, topic, chosen, start),
            committed=not uncommitted,
            patience_ms=int(timeout * 1000),
            most=count,
            on_jump=complain,
        )
        ends = _stops(client, topic, chosen, stop)
        try:
            _run(reader, topic, write, ends, count, exit_at_end)
        except KeyboardInterrupt:
            # Whoever reads on and on is stopped like this; nothing is wrong.
            sys.stdout.flush()
    return EXIT_GOOD


def _run(
    reader: TopicReader, topic: str, write: Writes, ends: dict[int, int], count: int | None, exit_at_end: bool
) -> None:
    out = sys.stdout.buffer
    left = {each for each in reader.positions if reader.positions[each] < ends.get(each, NEVER)}
    done = 0
    while left and (count is None or done < count):
        for partition, columns in reader.columns(left):
            end = ends.get(partition, NEVER)
            wanted = None if count is None else count - done
            records = [
                (record, tstype)
                for record, tstype in islice(zip(columns.records(), columns.timestamp_types.tolist()), wanted)
                if record.offset < end
            ]
            out.write(b"".join([write(topic, partition, record, tstype) for record, tstype in records]))
            done += len(records)
            if done == count:
                break
        out.flush()
        for partition in sorted(left):
            over = reader.positions[partition] >= ends.get(partition, NEVER)
            if over or (exit_at_end and reader.at_end(partition)):
                left.discard(partition)


def _writer(template: str | None, key_delimiter: str | None, delimiter: str, json: bool) -> Writes:
    if json:
        if template is not None:
            usage("-f and --json both say how records are written; give one")
        return as_json
    if template is None:
        return plain(None if key_delimiter is None else unescaped(key_delimiter), unescaped(delimiter))
    try:
        return compiled(template)
    except BadFormat as error:
        usage(str(error))


def _offsets(given: list[str]) -> tuple[str, int | None]:
    """Where to start, and the time at which to stop."""
    start, stop = "beginning", None
    for text in given:
        if re.fullmatch(r"e@\d+", text):
            stop = int(text[2:])
        elif text in NAMES or re.fullmatch(r"-?\d+|s@\d+", text):
            start = text
        else:
            usage(
                f"-o is beginning, end, an offset, -N for the last N, s@TIMESTAMP or "
                f"e@TIMESTAMP, not {text!r}"
            )
    return start, stop


def _positions(client: ClusterClient, topic: str, partitions: list[int], start: str) -> dict[int, int]:
    def ask(when: int) -> dict[int, int]:
        found = offsets_at(client, [(topic, each) for each in partitions], when)
        return {partition: offset for (_, partition), offset in found.items()}

    if start in NAMES:
        return ask(NAMES[start])
    if start.startswith("s@"):
        since, end = ask(int(start[2:])), ask(LATEST)
        return {each: end[each] if since[each] < 0 else since[each] for each in partitions}
    first, end = ask(EARLIEST), ask(LATEST)
    number = int(start)
    if start.startswith("-"):
        return {each: max(first[each], end[each] + number) for each in partitions}
    for each in partitions:
        if not first[each] <= number <= end[each]:
            raise Failed(f"{topic}-{each} holds offsets {first[each]} to {end[each]}, not {number}")
    return dict.fromkeys(partitions, number)


def _stops(client: ClusterClient, topic: str, partitions: list[int], stop: int | None) -> dict[int, int]:
    if stop is None:
        return {}
    wanted = [(topic, each) for each in partitions]
    found, end = (offsets_at(client, wanted, when) for when in (stop, LATEST))
    return {each: end[topic, each] if found[topic, each] < 0 else found[topic, each] for each in partitions}
