"""`epoka ledger` and `epoka why`: what a cluster has decided, and why things are as they are.

From the files of a cluster on this machine, from the topic `__epoka_ledger` of any other, or from files.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory

import msgspec

from epoka.cli.brokers import asking, offsets_at, topic_named
from epoka.cli.finding import the_file, the_folder
from epoka.cli.output import EXIT_FAILED, EXIT_GOOD, Failed, complain, say, say_json, usage
from epoka.cli.topic import least_isr
from epoka.client.cluster import EARLIEST
from epoka.client.reading import TopicReader
from epoka.cluster.fault_ledger import FILE_NAME as FAULTS
from epoka.ledger.file import NO_EVENT
from epoka.ledger.tail import Tail
from epoka.ledger.telling import line, moment, sentence
from epoka.ledger.why import PLACEMENT, Answer, History
from epoka.model.ledger import LedgerEvent
from epoka.model.ledger_outbox import TOPIC

LOOK_AGAIN_S = 0.2
PATIENCE_MS = 30_000

Rounds = Iterator[list[LedgerEvent]]
"""What there is, and then, each time, what has come since."""


def show_ledger(
    bootstrap: str | None,
    data: Path | None,
    file: list[Path],
    follow: bool,
    rule: str | None,
    broker: int | None,
    topic: str | None,
    kind: str | None,
    refused: bool,
    last: int | None,
    json: bool,
) -> int:
    fits = _filter(rule, broker, topic, kind, refused)
    if follow:
        # A shell that starts a command behind its back has it ignore the signal; here it is the way to end.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with _source(bootstrap, data, file, follow=follow) as rounds:
        try:
            for first, events in _numbered(rounds):
                shown = [event for event in events if fits(event)]
                for event in shown[max(0, len(shown) - last) :] if first and last is not None else shown:
                    if json:
                        say_json(event)
                    else:
                        say(line(event))
                if not follow:
                    break
        except KeyboardInterrupt:
            # Whoever follows is stopped like this; nothing is wrong.
            return EXIT_GOOD
    return EXIT_GOOD


def why_broker(broker: int, bootstrap: str | None, data: Path | None, file: list[Path], json: bool) -> int:
    answer = _history(bootstrap, data, file).why_broker(broker)
    return _tell([answer], json)


def why_partition(
    partition: str, bootstrap: str | None, data: Path | None, file: list[Path], json: bool
) -> int:
    match = re.fullmatch(r"(.+)-(\d+)", partition)
    if match is None:
        usage(f"a partition is written as TOPIC-NUMBER, such as orders-3, not {partition!r}")
    answer = _history(bootstrap, data, file).why_partition(match[1], int(match[2]))
    return _tell([answer], json)


def why_produce(
    topic: str | None,
    min_isr: int | None,
    bootstrap: str | None,
    data: Path | None,
    file: list[Path],
    json: bool,
) -> int:
    history = _history(bootstrap, data, file)
    if topic is not None and not _is_there(topic, history):
        raise Failed(f"the ledger knows of no partition of topic {topic}")
    least = (lambda name: min_isr) if min_isr is not None else _least(bootstrap, data, file, history)
    answers = history.why_produce(least, topic)
    if not answers and not json:
        say(f"every partition{' of ' + topic if topic else ''} takes produce requests with acks=all")
        return EXIT_GOOD
    _tell(answers, json, one=False)
    return EXIT_FAILED if answers else EXIT_GOOD


def _is_there(topic: str, history: History) -> bool:
    """Whether the ledger has placed the topic, and not deleted it since."""
    told = (*PLACEMENT, "topic-deleted")
    kinds = (event.kind for event in reversed(history.events) if event.topic == topic)
    return next((kind for kind in kinds if kind in told), told[-1]) != told[-1]


def _tell(answers: Sequence[Answer], json: bool, *, one: bool = True) -> int:
    unknown = [answer for answer in answers if not answer.steps]
    if unknown and one:
        raise Failed(unknown[0].state)
    if json:
        told = [
            {
                "subject": answer.subject,
                "state": answer.state,
                "because": [
                    {"depth": step.depth, "text": step.text, "event": step.event} for step in answer.steps
                ],
            }
            for answer in answers
        ]
        say_json(told[0] if one else told)
        return EXIT_GOOD
    for answer in answers:
        say(answer.state)
        for step in answer.steps:
            when = moment(step.event.time_ms).rpartition("T")[2].removesuffix("+00:00")
            say(f"  {when}  {'  ' * step.depth}{'because ' if step.depth else ''}{sentence(step.event)}")
    return EXIT_GOOD


def _history(bootstrap: str | None, data: Path | None, file: list[Path]) -> History:
    with _source(bootstrap, data, file) as rounds:
        return History(next(rounds))


def _least(
    bootstrap: str | None, data: Path | None, file: list[Path], history: History
) -> Callable[[str], int]:
    """The least ISR of every topic, asked of the cluster; 1 where nobody answers."""
    if file:
        return lambda name: 1
    names = sorted({event.topic for event in history.events if event.topic})
    try:
        with asking(bootstrap, data) as client:
            known = least_isr(client, names)
    except Failed as error:
        complain(f"min.insync.replicas is taken as 1: {error}")
        return lambda name: 1
    return lambda name: known.get(name, 1)


def _filter(
    rule: str | None, broker: int | None, topic: str | None, kind: str | None, refused: bool
) -> Callable[[LedgerEvent], bool]:
    match = re.fullmatch(r"(.+)-(\d+)", topic or "")

    def fits(event: LedgerEvent) -> bool:
        return (
            (rule is None or event.rule == rule or event.rule.startswith(f"{rule.rstrip('.')}."))
            and (broker is None or broker in (event.broker, event.node, event.leader))
            and (
                topic is None
                or event.topic == topic
                or (match is not None and (event.topic, event.partition) == (match[1], int(match[2])))
            )
            and (kind is None or event.kind == kind)
            and (not refused or event.verdict in ("refused", "ignored"))
        )

    return fits


class _source:
    """Where the events are that are meant."""

    def __init__(
        self, bootstrap: str | None, data: Path | None, file: list[Path], *, follow: bool = False
    ) -> None:
        if sum((bootstrap is not None, data is not None, bool(file))) > 1:
            usage("--bootstrap, --data and --file all say which ledger is meant; give one")
        self._stack = ExitStack()
        if bootstrap is not None:
            self._asking = asking(bootstrap, None)
            self._rounds = self._from_topic()
        elif file:
            self._rounds = self._from_given(file, follow)
        else:
            folder = the_folder(data)
            the_file(folder)
            self._rounds = _from_files(lambda: _files(folder))

    def __enter__(self) -> Rounds:
        return self._rounds

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _from_given(self, paths: list[Path], follow: bool) -> Rounds:
        # What does not stay, such as a pipe, cannot be looked into again and again: it is kept meanwhile.
        kept = Path(self._stack.enter_context(TemporaryDirectory(prefix="epoka-ledger-")))
        files = [each if each.is_file() else _copied(each, kept / str(at)) for at, each in enumerate(paths)]
        rounds = _from_files(lambda: files)
        events = next(rounds)
        if not events and not follow:
            raise Failed(f"no ledger events are in {' and '.join(map(str, paths))}")
        yield events
        yield from rounds

    def _from_topic(self) -> Rounds:
        with self._asking as client:
            self._stack.callback(client.close)
            topic_named(client, TOPIC)
            at = (TOPIC, 0)
            first = offsets_at(client, [at], EARLIEST)[at]
            reader = TopicReader(
                client, TOPIC, {0: first}, committed=False, patience_ms=PATIENCE_MS, on_jump=complain
            )
            decoder = msgspec.json.Decoder(LedgerEvent)
            while True:
                events = []
                while True:
                    for _, columns in reader.columns({0}):
                        for record in columns.records():
                            with suppress(*NO_EVENT):
                                events.append(decoder.decode(record.value or b""))
                    if reader.at_end(0):
                        break
                yield sorted(events, key=lambda event: (event.time_ms, event.node, event.event_id))


def _from_files(paths: Callable[[], Iterable[Path]]) -> Rounds:
    tail = Tail(paths)
    while True:
        yield tail.new()
        time.sleep(LOOK_AGAIN_S)


def _copied(path: Path, to: Path) -> Path:
    try:
        with path.open("rb") as source, to.open("wb") as target:
            copyfileobj(source, target)
    except FileNotFoundError:
        raise Failed(f"there is no file {path}") from None
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror or error}") from error
    return to


def _files(folder: Path) -> list[Path]:
    return [*sorted(folder.glob("*/ledger.jsonl")), folder / FAULTS]


def _numbered(rounds: Rounds) -> Iterator[tuple[bool, list[LedgerEvent]]]:
    first = True
    for events in rounds:
        yield first, events
        first = False
