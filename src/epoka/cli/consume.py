"""`epoka consume`: records of a topic to standard output, as `kcat -C` does it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from epoka.cli.brokers import EARLIEST, LATEST, Brokers, asking
from epoka.cli.format import BadFormat, Writes, as_json, compiled, plain, unescaped
from epoka.cli.output import EXIT_GOOD, Failed, usage
from epoka.cli.reading import Reader

NAMES = {"beginning": EARLIEST, "earliest": EARLIEST, "end": LATEST, "latest": LATEST}


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
    write = _writer(template, key_delimiter, delimiter, json)
    start, stop = _offsets(offset)
    with asking(bootstrap, data) as brokers:
        there = sorted(brokers.partitions(topic))
        if partition is not None and partition not in there:
            raise Failed(f"{topic} has no partition {partition}; it has {len(there)}")
        chosen = there if partition is None else [partition]
        positions = _positions(brokers, topic, chosen, start)
        ends = _stops(brokers, topic, chosen, stop)
        reader = Reader(brokers, topic, positions, committed=not uncommitted, patience_s=timeout)
        try:
            _run(reader, topic, write, ends, count, exit_at_end)
        except KeyboardInterrupt:
            # Whoever reads on and on is stopped like this; nothing is wrong.
            sys.stdout.flush()
    return EXIT_GOOD


def _run(
    reader: Reader, topic: str, write: Writes, ends: dict[int, int], count: int | None, exit_at_end: bool
) -> None:
    out = sys.stdout.buffer
    left = {each for each in reader.positions if reader.positions[each] < ends.get(each, 1 << 62)}
    done = 0
    while left and (count is None or done < count):
        for partition, record in reader.records(left):
            if record.offset >= ends.get(partition, 1 << 62):
                continue
            out.write(write(topic, partition, record))
            done += 1
            if done == count:
                break
        out.flush()
        for partition in sorted(left):
            over = reader.positions[partition] >= ends.get(partition, 1 << 62)
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


def _positions(brokers: Brokers, topic: str, partitions: list[int], start: str) -> dict[int, int]:
    def ask(when: int) -> dict[int, int]:
        found = brokers.offsets({(topic, each): when for each in partitions})
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


def _stops(brokers: Brokers, topic: str, partitions: list[int], stop: int | None) -> dict[int, int]:
    if stop is None:
        return {}
    found = brokers.offsets({(topic, each): stop for each in partitions})
    end = brokers.offsets({(topic, each): LATEST for each in partitions})
    return {each: end[topic, each] if found[topic, each] < 0 else found[topic, each] for each in partitions}
