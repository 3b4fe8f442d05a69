"""`epoka up`, from its ready line to its end, and the commands that speak to it."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.cli.commands import Outcome, epoka, first_line, foreground, is_one_line
from tests.cluster.records import read, write
from tests.waiting import wait_until

Ask = Callable[..., Outcome]


def bootstrap_of(line: str) -> str:
    match = re.match(r"ready bootstrap=(127\.0\.0\.1:\d+(?:,127\.0\.0\.1:\d+)*)(?: |$)", line)
    assert match, line
    return match[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_and_leaves_nothing(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        return epoka(*arguments, "--data", str(data))

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
        assert ask("node", "kill", "1").out == "node 1: stopped\n"
        wait_until(lambda: ask("status").code == 1, "the death to be seen")
        assert ask("node", "start", "1").out == "node 1: running\n"
        assert ask("status", "--json").json["brokers"][0]["generation"] > before
        assert read(bootstrap, "kept", 2) == [b"a", b"b"]

    def test_pause_isolate_and_heal(self, ask: Ask) -> None:
        assert ask("node", "pause", "2").out == "node 2: paused\n"
        assert ask("node", "resume", "2").out == "node 2: running\n"
        assert ask("node", "isolate", "2", "--from", "controller").code == 0
        wait_until(lambda: ask("status").code == 1, "the isolation to be seen")
        assert ask("node", "heal").code == 0
        wait_until(lambda: ask("status").code == 0, "the healing to be seen")

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
    arguments = ("up", "--brokers", "1", "--port", "0", "--data", str(tmp_path / "data"), "--json")
    generations = []
    for end in (signal.SIGKILL, signal.SIGTERM):
        with foreground(*arguments) as process:
            ready = Outcome(0, first_line(process), "").json
            assert ready["ready"] is True
            generations.append(epoka("status", "--data", ready["data"], "--json").json["brokers"][0])
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
    outcome = epoka("demo", "--records", "3000")
    assert outcome.code == 0, outcome
    assert "every record came back once, in order, bit for bit" in outcome.out
    assert "writing: 3,000 of 3,000" in outcome.out
    assert outcome.err == ""
