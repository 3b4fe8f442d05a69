"""`epoka up`, from its ready line to its end, and the commands that speak to it."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from epoka.cli import finding, up, zookeeper
from epoka.cluster.layout import plan
from tests.cli.commands import Outcome, epoka, first_line, foreground, inside, is_one_line
from tests.cluster.records import read, write
from tests.waiting import wait_until

Ask = Callable[..., Outcome]


def bootstrap_of(line: str) -> str:
    match = re.match(r"ready bootstrap=(127\.0\.0\.1:\d+(?:,127\.0\.0\.1:\d+)*)(?: |$)", line)
    assert match, line
    return match[1]


@pytest.fixture
def hangups() -> Iterator[None]:
    """Whoever is started here hears of a terminal that is closed, also when the tests run under nohup."""
    heard = {each: signal.getsignal(each) for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    # What is started does not inherit this, only that hangups are not ignored.
    signal.signal(signal.SIGHUP, lambda number, frame: None)
    yield
    for number, handler in heard.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_order_and_leaves_nothing(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangups: None
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with foreground("up", "--brokers", "1", "--port", "0") as process:
        address = bootstrap_of(first_line(process))
        nodes = psutil.Process(process.pid).children()
        assert len(nodes) == 2
        write(address, "made-by-asking", [b"x"])
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert (out, err) == ("", "")
        assert not any(node.is_running() for node in nodes)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_a_signal_while_it_starts_ends_it_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with foreground("up", "--brokers", "3", "--port", "0") as process:
        up = psutil.Process(process.pid)
        nodes = wait_until(up.children, "the first node to be started")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert err == ""
        # One that was only just begun finds out by itself that nobody wants it any more.
        wait_until(lambda: not any(node.is_running() for node in nodes), "the nodes to be gone")
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


@pytest.mark.parametrize("command", [up, zookeeper])
def test_a_terminal_that_is_closed_may_tell_it_twice(command: Any, hangups: None) -> None:
    stop = command._Stop()
    stop.may_interrupt = False
    signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGHUP)
    assert stop.asked.is_set()


@pytest.mark.parametrize("command", [up, zookeeper])
def test_under_nohup_a_terminal_may_be_closed(command: Any, hangups: None) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop = command._Stop()
    signal.raise_signal(signal.SIGHUP)
    assert not stop.asked.is_set()


def test_a_cluster_runs_when_its_lock_is_held_whatever_the_process_ids_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runs, ended = (plan(brokers=1, data=tmp_path / name) for name in ("runs", "ended"))
    ended.close()
    notes = finding._notes()
    # Somebody else has the id now, somebody whom we cannot see runs it, and once more from an earlier life.
    for name, data in ((os.getpid(), ended.data), (999999998, runs.data), (999999999, runs.data)):
        (notes / str(name)).write_text(str(data))
    (notes / "1").touch()
    assert finding.running() == [runs.data]
    assert {note.name for note in notes.iterdir()} == {"1", "999999998", "999999999"}
    runs.close()
    assert finding.running() == []


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("up") / "data"


@pytest.fixture(scope="module")
def bootstrap(data: Path) -> Iterator[str]:
    """A cluster of two brokers in `data`."""
    arguments = ("--brokers", "2", "--port", "0", "--data", str(data))
    with foreground("up", *arguments, "--config", "controller.heartbeat.timeout.ms=3000") as process:
        yield bootstrap_of(first_line(process))
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err


@pytest.fixture
def ask(data: Path, bootstrap: str) -> Iterator[Ask]:
    """Commands to that cluster, which is healthy again after each test."""

    def ask(*arguments: str) -> Outcome:
        return inside(*arguments, "--data", str(data))

    yield ask
    wait_until(lambda: ask("status").code == 0, "a healthy cluster")


@pytest.mark.xdist_group("epoka up")
class TestCommands:
    """Everything that can be said to a cluster that `epoka up` runs."""

    def test_status_shows_generations(self, ask: Ask) -> None:
        plain = ask("status")
        assert plain.code == 0, plain
        assert "log mode, level fetch-epochs, controller 100" in plain.out
        assert "healthy" in plain.out
        told = ask("status", "--json").json
        assert [broker["id"] for broker in told["brokers"]] == [1, 2]
        assert all(broker["generation"] > 0 and not broker["fenced"] for broker in told["brokers"])
        assert told["healthy"] is True

    def test_status_from_a_client_s_side(self, bootstrap: str) -> None:
        outcome = epoka("status", "--bootstrap", bootstrap, "--json")
        assert outcome.code == 0, outcome
        assert [broker["id"] for broker in outcome.json["brokers"]] == [1, 2]

    def test_topics_from_creation_to_deletion(self, ask: Ask, bootstrap: str) -> None:
        create = ("topic", "create", "orders", "--partitions", "3", "--replication-factor", "2")
        created = ask(*create, "--config", "retention.ms=60000", "--json")
        assert created.code == 0, created
        assert created.json["partitions"] == 3
        again = ask(*create)
        assert again.code == 1
        assert is_one_line(again) and "TOPIC_ALREADY_EXISTS" in again.err
        assert "orders" in ask("topic", "list").out
        (listed,) = [each for each in ask("topic", "list", "--json").json if each["name"] == "orders"]
        assert (listed["partitions"], listed["replicas"]) == (3, 2)
        described = ask("topic", "describe", "orders", "--json")
        assert described.code == 0, described
        assert described.json["settings"] == {"retention.ms": "60000"}
        assert [each["partition"] for each in described.json["partitions"]] == [0, 1, 2]
        assert all(sorted(each["isr"]) == [1, 2] for each in described.json["partitions"])
        assert "retention.ms=60000" in epoka("topic", "describe", "orders", "--bootstrap", bootstrap).out
        assert ask("topic", "delete", "orders").code == 0
        gone = ask("topic", "describe", "orders")
        assert gone.code == 1
        assert is_one_line(gone) and "UNKNOWN_TOPIC_OR_PARTITION" in gone.err

    def test_a_topic_that_cannot_be_is_refused(self, ask: Ask) -> None:
        for arguments in (
            ("bad/name",),
            ("wide", "--replication-factor", "9"),
            ("odd", "--config", "no.such.key=1"),
        ):
            outcome = ask("topic", "create", *arguments)
            assert outcome.code == 1, outcome
            assert is_one_line(outcome), outcome

    def test_a_bounce_tells_both_generations(self, ask: Ask) -> None:
        outcome = ask("node", "bounce", "1", "--json")
        assert outcome.code == 0, outcome
        assert outcome.json["new"] > outcome.json["old"]
        assert re.match(r"broker 1 is back: generation \d+ -> \d+", ask("node", "bounce", "1").out)

    def test_a_killed_broker_keeps_its_records_and_gets_a_higher_generation(
        self, ask: Ask, bootstrap: str
    ) -> None:
        assert ask("topic", "create", "kept", "--replication-factor", "2").code == 0
        write(bootstrap, "kept", [b"a", b"b"])
        before = ask("status", "--json").json["brokers"][0]["generation"]
        assert ask("node", "kill", "1").out == f"node 1: stopped, generation {before}\n"
        wait_until(lambda: ask("status").code == 1, "the death to be seen")
        told = ask("node", "start", "1").out
        after = ask("status", "--json").json["brokers"][0]["generation"]
        assert after > before
        assert told == f"node 1: running, generation {before} -> {after}\n"
        assert read(bootstrap, "kept", 2) == [b"a", b"b"]

    def test_pause_isolate_and_heal(self, ask: Ask) -> None:
        assert ask("node", "pause", "2").out.startswith("node 2: paused, generation ")
        assert ask("node", "resume", "2").out.startswith("node 2: running, generation ")
        assert ask("node", "pause", "100").out == "node 100: paused\n"
        assert ask("node", "resume", "100").out == "node 100: running\n"
        assert ask("node", "isolate", "2", "--from", "controller").code == 0
        wait_until(lambda: ask("status").code == 1, "the isolation to be seen")
        assert ask("node", "heal").code == 0
        wait_until(lambda: ask("status").code == 0, "the healing to be seen")

    def test_every_node_is_listed(self, ask: Ask) -> None:
        nodes = ask("node", "list", "--json").json
        assert [(each["node"], each["role"], each["state"]) for each in nodes] == [
            (100, "controller", "running"),
            (1, "broker", "running"),
            (2, "broker", "running"),
        ]
        assert [each["generation"] is None for each in nodes] == [True, False, False]
        assert len(ask("node", "list").out.splitlines()) == 4

    def test_the_ledger_and_the_reasons(self, ask: Ask, bootstrap: str) -> None:
        """From the files and from the topic; what somebody did is in the files only."""
        create = ("topic", "create", "asked-about", "--replica-assignment", "1:2")
        assert ask(*create, "--config", "min.insync.replicas=2").code == 0
        wait_until(lambda: ask("why", "produce", "asked-about").code == 0, "the topic in the ledger")
        assert ask("node", "kill", "1").code == 0
        wait_until(lambda: "is fenced" in ask("why", "broker", "1").out, "the death in the ledger")
        fenced = ask("why", "broker", "1")
        assert fenced.out.splitlines()[-1].endswith("because somebody killed broker 1")
        moved = ask("why", "partition", "asked-about-0", "--json").json
        assert moved["state"] == "asked-about-0 is led by broker 2, in sync are broker 2"
        kinds = [step["event"]["kind"] for step in moved["because"]]
        assert kinds == ["leader", "fenced", "verdict", "fault"]
        refusing = ask("why", "produce", "asked-about")
        assert refusing.code == 1
        assert "NOT_ENOUGH_REPLICAS" in refusing.out and "somebody killed broker 1" in refusing.out
        assert ask("node", "start", "1").code == 0
        lines = ask("ledger", "--broker", "1", "--kind", "fenced", "-n", "1").out.splitlines()
        assert len(lines) == 1 and "was fenced" in lines[0]
        (refused,) = ask("ledger", "--rule", "heartbeat", "--refused", "-n", "1", "--json").out.splitlines()
        assert json.loads(refused)["rule"] == "heartbeat.session"
        assert "asked-about-0" in ask("ledger", "--topic", "asked-about-0").out

        def in_the_topic() -> bool:
            return (
                "broker 1 (generation "
                in epoka("ledger", "--bootstrap", bootstrap, "--rule", "heartbeat").out
            )

        wait_until(in_the_topic, "the events in the topic")
        assert "its lives were" in epoka("why", "broker", "1", "--bootstrap", bootstrap).out

    def test_the_ledger_is_followed(self, ask: Ask, data: Path, bootstrap: str) -> None:
        with foreground("ledger", "--follow", "--kind", "topic-created", "--data", str(data)) as reader:
            assert ask("topic", "create", "followed").code == 0
            assert reader.stdout is not None
            wait_until(lambda: "topic followed was created" in (reader.stdout.readline() or ""), "the event")
            reader.send_signal(signal.SIGINT)
            _, err = reader.communicate(timeout=30)
            assert (reader.returncode, err) == (0, "")

    def test_what_the_ledger_cannot_tell(self, ask: Ask, tmp_path: Path) -> None:
        for arguments, code, text in (
            (("why", "broker", "9"), 1, "knows nothing of broker 9"),
            (("why", "partition", "none-0"), 1, "knows nothing of none-0"),
            (("why", "partition", "none"), 2, "TOPIC-NUMBER"),
        ):
            outcome = ask(*arguments)
            assert outcome.code == code
            assert is_one_line(outcome) and text in outcome.err
        for arguments in (
            ("ledger", "--file", str(tmp_path / "none")),
            ("why", "broker", "1", "--data", "/"),
        ):
            outcome = epoka(*arguments)
            assert outcome.code == 1
            assert is_one_line(outcome)

    def test_settings_and_levels(self, ask: Ask) -> None:
        assert ask("topic", "create", "set-up").code == 0
        assert ask("config", "set", "topic", "set-up", "retention.ms=5000").code == 0
        assert [each["name"] for each in ask("config", "show", "topic", "set-up", "--json").json] == [
            "retention.ms"
        ]
        assert ask("config", "unset", "topic", "set-up", "retention.ms").code == 0
        assert "nothing is set" in ask("config", "show", "topic", "set-up").out
        assert "retention.ms" in ask("config", "show", "topic", "set-up", "--all").out
        assert "node.id" in ask("config", "show", "broker", "1").out
        bad = ask("config", "set", "broker", "1", "no.such=1")
        assert bad.code == 1 and is_one_line(bad) and "INVALID_CONFIG" in bad.err
        (level,) = ask("level", "show", "--json").json
        assert (level["feature"], level["name"]) == ("epoka.level", "fetch-epochs")
        assert "5  fetch-epochs    is here" in ask("level", "show").out
        lower = ask("level", "raise", "heartbeats")
        assert lower.code == 1 and is_one_line(lower) and "levels only rise" in lower.err
        assert "already" in ask("level", "raise", "fetch-epochs").out

    def test_what_makes_no_sense_is_refused(self, ask: Ask) -> None:
        for arguments, text in (
            (("node", "kill", "9"), "there is no node 9"),
            (("node", "bounce", "1", "--how", "sideways"), "sideways"),
            (("node", "wipe", "1"), "is running"),
            (("node", "isolate", "1", "--from", "moon"), "moon"),
        ):
            outcome = ask(*arguments)
            assert outcome.code == 2, outcome
            assert is_one_line(outcome) and text in outcome.err

    def test_nobody_else_runs_the_same_cluster(self, data: Path, bootstrap: str) -> None:
        outcome = epoka("up", "--brokers", "2", "--port", "0", "--data", str(data))
        assert outcome.code == 1
        assert is_one_line(outcome) and "is running already" in outcome.err


def test_a_kept_cluster_goes_on_after_it_was_killed_as_a_whole(tmp_path: Path) -> None:
    arguments = ("up", "--port", "0", "--data", str(tmp_path / "data"), "--json")
    generations = []
    for end, brokers in ((signal.SIGKILL, ("--brokers", "1")), (signal.SIGTERM, ())):
        with foreground(*arguments, *brokers) as process:
            ready = Outcome(0, first_line(process), "").json
            assert ready["ready"] is True
            (broker,) = epoka("status", "--data", ready["data"], "--json").json["brokers"]
            generations.append(broker)
            if end is signal.SIGKILL:
                write(ready["bootstrap"], "kept", [b"a"])
            else:
                assert read(ready["bootstrap"], "kept", 1) == [b"a"]
            nodes = psutil.Process(process.pid).children()
            process.send_signal(end)
            process.wait(60)
            assert process.returncode == (-9 if end is signal.SIGKILL else 0)
            wait_until(lambda: not any(node.is_running() for node in nodes), "the nodes to be gone")  # noqa: B023
    assert generations[1]["generation"] > generations[0]["generation"]


def test_a_node_that_dies_is_told_and_makes_the_end_a_failure(tmp_path: Path) -> None:
    with foreground("up", "--brokers", "1", "--port", "0", "--data", str(tmp_path / "data")) as process:
        first_line(process)
        broker = next(
            each for each in psutil.Process(process.pid).children() if "broker-1" in " ".join(each.cmdline())
        )
        broker.send_signal(signal.SIGABRT)
        assert process.stderr is not None
        assert "broker 1 was killed by SIGABRT" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 1


def test_the_demo_accounts_for_every_record() -> None:
    outcome = epoka("demo", "--records", "3000", "--no-spark")
    assert outcome.code == 0, outcome
    assert "every record came back once, in order, bit for bit" in outcome.out
    assert "writing: 3,000 of 3,000" in outcome.out
    assert outcome.err == ""
