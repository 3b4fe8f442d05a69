"""The verbs that need no more than a client's view: topics, groups, produce and consume."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from epoka import Cluster
from epoka.cli import produce
from tests.cli.commands import COMMAND, Outcome, inside, is_one_line
from tests.cluster.records import read, write
from tests.waiting import wait_until

Ask = Callable[..., Outcome]
pytestmark = pytest.mark.xdist_group("client verbs")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, config={"min.insync.replicas": 2}) as cluster:
        yield cluster


@pytest.fixture
def ask(cluster: Cluster) -> Ask:
    def ask(*arguments: str, given: str | None = None) -> Outcome:
        return inside(*arguments, "--bootstrap", cluster.bootstrap, given=given)

    return ask


class TestTopics:
    def test_creation_with_replicas_of_one_s_choice(self, ask: Ask) -> None:
        assert ask("topic", "create", "--topic", "placed", "--replica-assignment", "1:2,3:1").code == 0
        described = ask("topic", "describe", "placed", "--json").json
        assert [each["replicas"] for each in described["partitions"]] == [[1, 2], [3, 1]]
        again = ask("topic", "create", "placed", "--if-not-exists", "--json")
        assert again.code == 0
        assert again.json == dict.fromkeys(("topic_id", "partitions", "replicas")) | {
            "name": "placed",
            "created": False,
        }

    def test_a_name_that_is_given_twice_may_be_the_same(self, ask: Ask) -> None:
        assert ask("topic", "create", "twice", "--topic", "twice").code == 0

    def test_a_topic_may_be_called_cluster(self, ask: Ask) -> None:
        assert ask("topic", "create", "cluster", "--config", "retention.ms=60000").code == 0
        assert ask("config", "unset", "topic", "cluster", "retention.ms").code == 0
        assert ask("topic", "describe", "cluster", "--json").json["settings"] == {}
        assert ask("config", "unset", "broker", "cluster", "log.retention.ms").code == 0

    def test_one_topic_has_one_shape_whatever_is_left_of_it(self, ask: Ask) -> None:
        assert ask("topic", "create", "shaped", "--replica-assignment", "1:2:3").code == 0
        for only, left in (("--at-min-isr-partitions", 0), ("--topics-with-overrides", 0), ("--internal", 1)):
            described = ask("topic", "describe", "shaped", only, "--json")
            assert described.code == 0 and described.json["name"] == "shaped"
            assert len(described.json["partitions"]) == left

    def test_more_partitions_and_other_settings(self, ask: Ask) -> None:
        assert ask("topic", "create", "grows", "--config", "retention.ms=60000").code == 0
        changed = (
            "--partitions",
            "4",
            "--config",
            "segment.bytes=1048576",
            "--delete-config",
            "retention.ms",
        )
        assert ask("topic", "alter", "grows", *changed).code == 0
        described = ask("topic", "describe", "grows", "--json").json
        assert len(described["partitions"]) == 4
        assert described["settings"] == {"segment.bytes": "1048576"}
        fewer = ask("topic", "alter", "grows", "--partitions", "2")
        assert fewer.code == 1 and is_one_line(fewer) and "INVALID_PARTITIONS" in fewer.err
        bad = ask("topic", "alter", "grows", "--config", "no.such=1")
        assert bad.code == 1 and is_one_line(bad)

    def test_lists_and_patterns(self, ask: Ask) -> None:
        for name in ("fruit.apple", "fruit.pear", "nut"):
            assert ask("topic", "create", name).code == 0
        listed = ask("topic", "list", "fruit[.].*", "--json").json
        assert [each["name"] for each in listed] == ["fruit.apple", "fruit.pear"]
        none = ask("topic", "describe", "fruit.*x")
        assert none.code == 1 and is_one_line(none)
        assert ask("topic", "delete", "nut").code == 0
        assert ask("topic", "delete", "nut", "--if-exists").code == 0
        assert ask("topic", "delete", "nut").code == 1

    def test_filters_show_the_partitions_that_are_not_well(self, ask: Ask, cluster: Cluster) -> None:
        assert ask("topic", "create", "pair", "--replica-assignment", "1:2,2:3").code == 0
        assert ask("topic", "create", "alone", "--replica-assignment", "2,3").code == 0
        under = ("topic", "describe", "pair", "--under-replicated-partitions")
        assert (ask(*under).code, ask(*under).out) == (0, "no partitions\n")
        assert ask("topic", "describe", "pair", "--at-min-isr-partitions").code == 1
        cluster.stop(2)
        try:
            shown = ask(*under, "--json")
            assert shown.code == 1
            assert [each["partition"] for each in shown.json["partitions"]] == [0, 1]
            assert ask("topic", "describe", "pair", "--under-min-isr-partitions").out.count("\npair ") == 2
            gone = ask("topic", "describe", "--unavailable-partitions")
            assert gone.code == 1
            assert gone.out.splitlines()[1].split()[:3] == ["alone", "0", "none"]
        finally:
            cluster.start(2)

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (("create", "t", "--replica-assignment", "1;2"), "1:2,2:3"),
            (("create", "t", "--replica-assignment", "1:2", "--partitions", "3"), "leave the others out"),
            (("alter", "t"), "nothing to alter"),
            (("list", "a["), "no regular expression"),
            (("describe", "--unavailable-partitions", "--at-min-isr-partitions"), "exclude each other"),
        ],
    )
    def test_wrong_use(self, ask: Ask, arguments: tuple[str, ...], text: str) -> None:
        outcome = ask("topic", *arguments)
        assert outcome.code == 2
        assert is_one_line(outcome) and text in outcome.err


class TestProduceAndConsume:
    def test_a_pipe_through_the_cluster_loses_nothing(self, ask: Ask) -> None:
        lines = [f"line {number}" for number in range(5000)]
        written = ask("produce", "piped", "--json", "-z", "lz4", given="\n".join(lines))
        assert written.code == 0, written
        assert written.json["records"] == 5000
        out = ask("consume", "piped", "-e").out
        assert sorted(out.splitlines()) == sorted(lines)

    def test_other_clients_read_and_write_the_same(self, ask: Ask, cluster: Cluster) -> None:
        assert ask("produce", "shared", "-p", "0", given="a\nb\n").code == 0
        assert read(cluster.bootstrap, "shared", 2) == [b"a", b"b"]
        write(cluster.bootstrap, "shared", [b"c"])
        assert ask("consume", "shared", "-e").out == "a\nb\nc\n"

    def test_keys_headers_and_formats(self, ask: Ask) -> None:
        given = "k1:v1;k2:v2;"
        assert ask("produce", "keyed", "-p", "0", "-K:", "-D;", "-H", "h=1", given=given).code == 0
        told = ask("consume", "keyed", "-e", "-f", "%t/%p/%o %k=%s %h\\n")
        assert told.out == "keyed/0/0 k1=v1 h=1\nkeyed/0/1 k2=v2 h=1\n"
        assert ask("consume", "keyed", "-e", "-K", "=>").out == "k1=>v1\nk2=>v2\n"

    def test_json_goes_from_one_topic_into_another(self, ask: Ask) -> None:
        assert ask("produce", "one", "-p", "0", "-k", "key", "-Z", given="x\n\n").code == 0
        lines = ask("consume", "one", "-e", "-J").out
        assert [json.loads(line)["payload"] for line in lines.splitlines()] == ["x", None]
        assert ask("produce", "two", "-J", given=lines).code == 0
        assert ask("consume", "two", "-e", "-f", "%k %S,").out == "key 1,key -1,"

    def test_a_copy_has_header_values_that_are_no_text(self, ask: Ask, cluster: Cluster) -> None:
        headers = [("text", b"1"), ("bytes", b"\xff\x00"), ("null", None)]
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        producer.produce("headed", b"x", partition=0, headers=headers)
        assert producer.flush(60) == 0
        lines = ask("consume", "headed", "-e", "-J").out
        assert ask("produce", "headed-copy", "-J", given=lines).code == 0
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "headed"})
        consumer.assign([TopicPartition("headed-copy", 0, 0)])
        copied = wait_until(lambda: consumer.poll(0.5), "the copy")
        consumer.close()
        assert copied.headers() == headers

    def test_a_copy_may_go_to_one_partition_and_get_headers(self, ask: Ask) -> None:
        assert ask("topic", "create", "chosen", "--partitions", "3").code == 0
        line = json.dumps({"payload": "x", "partition": 0, "headers": ["a", "1"]})
        assert ask("produce", "chosen", "-J", "-p", "2", "-H", "b=2", given=line).code == 0
        assert ask("consume", "chosen", "-e", "-f", "%p %h %s\\n").out == "2 a=1,b=2 x\n"

    def test_json_tells_when_the_log_has_stamped_a_record(self, ask: Ask) -> None:
        stamped = ("--config", "message.timestamp.type=LogAppendTime")
        assert ask("topic", "create", "stamped", *stamped).code == 0
        assert ask("produce", "stamped", given="x").code == 0
        assert ask("consume", "stamped", "-e", "-J").json["tstype"] == "logappend"

    def test_where_to_start_and_when_to_stop(self, ask: Ask) -> None:
        stamped = "".join(f'{{"payload": "{n}", "ts": {1000 + n}, "partition": 0}}\n' for n in range(10))
        assert ask("produce", "timed", "-J", given=stamped).code == 0
        assert ask("consume", "timed", "-o", "-3", "-e").out.split() == ["7", "8", "9"]
        assert ask("consume", "timed", "-o", "4", "-c", "2").out.split() == ["4", "5"]
        assert ask("consume", "timed", "-o", "s@1002", "-o", "e@1005").out.split() == ["2", "3", "4"]
        assert ask("consume", "timed", "-o", "end", "-e").out == ""
        beyond = ask("consume", "timed", "-o", "11")
        assert beyond.code == 1 and is_one_line(beyond) and "0 to 10" in beyond.err

    def test_without_input_no_topic_is_made(self, ask: Ask) -> None:
        assert ask("produce", "never-made", given="").code == 0
        assert ask("topic", "describe", "never-made").code == 1

    @pytest.mark.parametrize(
        ("arguments", "heavy"),
        [(("consume", "small", "-e"), "numba"), (("topic", "describe", "small"), "numpy")],
    )
    def test_what_is_heavy_is_loaded_when_there_is_need(
        self, ask: Ask, cluster: Cluster, arguments: tuple[str, ...], heavy: str
    ) -> None:
        assert ask("produce", "small", "-p", "0", given="x\n").code == 0
        program = (
            "import sys; from epoka.cli import main; "
            f"code = main.run(sys.argv[1:]); sys.exit(code or '{heavy}' in sys.modules)"
        )
        run = [sys.executable, "-c", program, *arguments, "-b", cluster.bootstrap]
        done = subprocess.run(run, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0 and done.stdout, done

    def test_other_brokers_are_written_to_and_read(self) -> None:
        mock = Producer({"bootstrap.servers": "nowhere", "test.mock.num.brokers": 2, "log_level": 0})
        brokers = mock.list_topics(timeout=60).brokers.values()
        there = ("-b", ",".join(f"{each.host}:{each.port}" for each in brokers))
        written = inside("produce", "mock", "-p", "0", "-K:", *there, "--json", given="k:ours\n")
        assert written.code == 0, written
        assert written.json["partitions"] == {"0": {"records": 1, "first_offset": 0, "last_offset": 0}}
        mock.produce("mock", b"theirs", partition=0)
        assert mock.flush(60) == 0
        read = inside("consume", "mock", "-p", "0", "-e", "-f", "%k=%s\\n", *there)
        assert (read.code, read.out) == (0, "k=ours\n=theirs\n")

    def test_records_are_written_as_soon_as_they_come(self, ask: Ask, cluster: Cluster) -> None:
        assert ask("topic", "create", "slow").code == 0
        arguments = ("produce", "slow", "-b", cluster.bootstrap)
        with subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.PIPE, text=True) as writer:
            assert writer.stdin is not None
            writer.stdin.write("first\n")
            writer.stdin.flush()
            assert ask("consume", "slow", "-c", "1").out == "first\n"
            writer.stdin.close()
            assert writer.wait(30) == 0

    def test_a_bounced_leader_costs_no_record_and_doubles_none(self, ask: Ask, cluster: Cluster) -> None:
        assert ask("topic", "create", "steady", "--replica-assignment", "1:2:3").code == 0
        arguments = ("produce", "steady", "-b", cluster.bootstrap)
        with subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.PIPE, text=True) as writer:
            assert writer.stdin is not None
            for number in range(200):
                writer.stdin.write(f"{number}\n")
                writer.stdin.flush()
                if number == 100:
                    cluster.bounce(1, how="fast")
            writer.stdin.close()
            assert writer.wait(60) == 0
        assert ask("consume", "steady", "-e").out.split() == [str(number) for number in range(200)]

    @pytest.mark.parametrize(
        ("arguments", "code", "text"),
        [
            (("consume", "no-such-topic"), 1, "UNKNOWN_TOPIC_OR_PARTITION"),
            (("produce", "bad/name"), 1, "INVALID_TOPIC_EXCEPTION"),
            (("produce", "t", "-z", "rar"), 2, "gzip"),
            (("produce", "t", "--acks", "2"), 2, "all or 1"),
            (("produce", "t", "-k", "a", "-K:"), 2, "give one"),
            (("produce", "t", "-J", "-k", "a"), 2, "leave -k out"),
            (("produce", "t", "-J", "-K:"), 2, "leave -K out"),
            (("produce", "t", "-J", "-Z"), 2, "leave -Z out"),
            (("consume", "t", "-f", "%x"), 2, "there is no %x"),
            (("consume", "t", "-o", "later"), 2, "beginning"),
            (("consume", "t", "-c", "0"), 2, "below 1"),
        ],
    )
    def test_what_cannot_be_is_one_line(
        self, ask: Ask, arguments: tuple[str, ...], code: int, text: str
    ) -> None:
        outcome = ask(*arguments, given="x")
        assert outcome.code == code, outcome
        assert is_one_line(outcome) and text in outcome.err

    def test_a_partition_that_is_not_there(self, ask: Ask) -> None:
        assert ask("topic", "create", "narrow").code == 0
        for verb in ("produce", "consume"):
            outcome = ask(verb, "narrow", "-p", "7", given="x")
            assert outcome.code == 1
            assert is_one_line(outcome) and "narrow has no partition 7" in outcome.err

    def test_records_that_find_no_room_are_one_line(self, ask: Ask, cluster: Cluster) -> None:
        assert ask("produce", "roomy", given="x\n").code == 0
        run = [*COMMAND, "consume", "roomy", "-e", "-b", cluster.bootstrap]
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(run, stdout=full, stderr=subprocess.PIPE, text=True, timeout=100)
        assert done.returncode == 1
        assert is_one_line(Outcome(1, "", done.stderr)) and "No space left on device" in done.stderr, done

    def test_input_that_cannot_be_read_is_one_line(self, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
        def read(source: int, most: int) -> bytes:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))

        monkeypatch.setattr(produce, "os", SimpleNamespace(read=read))
        outcome = ask("produce", "narrow", given="x")
        assert outcome.code == 1
        assert is_one_line(outcome) and "standard input cannot be read: Is a directory" in outcome.err

    def test_a_line_that_is_not_json_is_named(self, ask: Ask) -> None:
        outcome = ask("produce", "narrow-json", "-J", given='{"payload": "x"}\nnonsense\n')
        assert outcome.code == 1
        assert is_one_line(outcome) and "record 2" in outcome.err


HUGE = "99999999999999999999"


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "create", "t", "--partitions", HUGE),
        ("topic", "create", "t", "--replication-factor", "99999"),
        ("topic", "create", "t", "--replica-assignment", HUGE),
        ("topic", "create", "x" * 40_000),
        ("topic", "create", "not-utf-8-\udcff"),
        ("topic", "alter", "there", "--partitions", HUGE),
        ("consume", "there", "-o", HUGE),
        ("consume", "there", "-o", f"s@{HUGE}", "-e"),
        ("consume", "there\udcff", "-e"),
        ("produce", "there", "-k", "\udcff"),
        ("produce", "there", "-K", ""),
        ("produce", "there", "-J"),
        ("produce", "there", "-p", HUGE),
        ("group", "reset-offsets", "g", "--topic", f"there:{HUGE}", "--to-earliest"),
        ("group", "describe", ""),
        ("config", "show", "broker", HUGE),
        ("config", "set", "topic", "there", "retention.ms=\udcff"),
        ("level", "raise", HUGE),
        ("why", "partition", f"there-{HUGE}"),
        ("why", "broker", HUGE),
    ],
)
def test_whatever_does_not_fit_is_one_line(ask: Ask, arguments: tuple[str, ...]) -> None:
    ask("topic", "create", "there", "--if-not-exists")
    outcome = ask(*arguments, given=f'{{"payload": "x", "ts": {HUGE}}}')
    assert outcome.code in (1, 2), outcome
    assert is_one_line(outcome), outcome


@pytest.mark.parametrize("where", [("--to-datetime", "0001-01-01T00:00:00"), ("--by-duration", f"P{HUGE}D")])
def test_times_before_all_records_mean_the_beginning(ask: Ask, where: tuple[str, ...]) -> None:
    assert ask("produce", "old-times", "-p", "0", given="a\nb\n").code == 0
    told = ask("group", "reset-offsets", "g", "--topic", "old-times", *where, "--json").json
    assert [line["after"] for line in told["offsets"]] == [0]


def test_a_level_that_is_reached_can_not_rise_to_itself(ask: Ask) -> None:
    for more in ((), ("--dry-run",)):
        assert ask("level", "raise", "fetch-epochs", *more).out == "the level is fetch-epochs already\n"


class TestGroups:
    @pytest.fixture
    def group(self, ask: Ask, cluster: Cluster) -> str:
        """A group that has read half of the topic of the same name and gone."""
        name = f"readers-{uuid4()}"
        assert ask("produce", name, "-p", "0", given="\n".join("abcdefgh")).code == 0
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": name})
        consumer.commit(offsets=[TopicPartition(name, 0, 4)], asynchronous=False)
        consumer.close()
        return name

    def test_a_group_from_its_members_to_its_end(self, ask: Ask, cluster: Cluster) -> None:
        assert ask("produce", "watched", "-p", "0", given="a\nb\nc\n").code == 0
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "living",
                "client.id": "somebody",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["watched"])
        wait_until(lambda: (message := consumer.poll(0.5)) and message.value(), "the first record")
        consumer.commit(asynchronous=False)
        (line,) = [each for each in ask("group", "list", "--json").json if each["group"] == "living"]
        assert (line["state"], line["protocol_type"]) == ("Stable", "consumer")
        told = ask("group", "describe", "living", "--json").json
        assert [member["client_id"] for member in told["members"]] == ["somebody"]
        (offset,) = [each for each in told["offsets"] if each["partition"] == 0]
        assert (offset["log_end_offset"], offset["client_id"]) == (3, "somebody")
        assert offset["lag"] == 3 - offset["current_offset"]
        assert "somebody" in ask("group", "describe", "living", "--members").out
        busy = ask("group", "reset-offsets", "living", "--all-topics", "--to-earliest")
        assert busy.code == 1 and is_one_line(busy) and "no members" in busy.err
        refused = ask("group", "delete", "living")
        assert refused.code == 1 and is_one_line(refused) and "NON_EMPTY_GROUP" in refused.err
        consumer.close()
        assert ask("group", "delete", "living").code == 0
        gone = ask("group", "describe", "living")
        assert gone.code == 1 and is_one_line(gone) and "GROUP_ID_NOT_FOUND" in gone.err

    def test_a_name_can_not_forge_a_row(self, ask: Ask, cluster: Cluster) -> None:
        name = f"{uuid4()}\x1b[2K\nforged"
        assert ask("produce", "forging", "-p", "0", given="x").code == 0
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": name})
        consumer.commit(offsets=[TopicPartition("forging", 0, 1)], asynchronous=False)
        consumer.close()
        for words in (("group", "list"), ("group", "describe", name)):
            told = ask(*words)
            assert told.code == 0 and "\nforged" not in told.out and "\x1b" not in told.out
            assert name[:36] + r"\x1b[2K\nforged" in told.out

    @pytest.mark.parametrize(
        ("where", "after"),
        [
            (("--to-earliest",), 0),
            (("--to-latest",), 8),
            (("--to-offset", "99"), 8),
            (("--shift-by", "-1"), 3),
            (("--to-datetime", "2000-01-01T00:00:00"), 0),
            (("--by-duration", "PT1H"), 0),
        ],
    )
    def test_offsets_stay_until_it_is_meant(
        self, ask: Ask, group: str, where: tuple[str, ...], after: int
    ) -> None:
        reset = ("group", "reset-offsets", group, "--topic", f"{group}:0", *where, "--json")
        dry = ask(*reset).json
        assert dry["executed"] is False
        expected = [{"topic": group, "partition": 0, "before": 4, "after": after}]
        assert dry["offsets"] == expected
        assert ask(*reset, "--execute").json["offsets"] == expected
        (told,) = ask("group", "describe", group, "--json").json["offsets"]
        assert told["current_offset"] == after

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (("--all-topics",), "say where to"),
            (("--to-earliest",), "say which topics"),
            (("--all-topics", "--to-earliest", "--to-latest"), "say where to"),
            (("--topic", "t:x", "--to-earliest"), "TOPIC:0,1,2"),
            (("--all-topics", "--to-datetime", "yesterday"), "2026-01-31"),
            (("--all-topics", "--by-duration", "1h"), "P1DT2H30M10S"),
        ],
    )
    def test_wrong_use(self, ask: Ask, arguments: tuple[str, ...], text: str) -> None:
        outcome = ask("group", "reset-offsets", "g", *arguments)
        assert outcome.code == 2
        assert is_one_line(outcome) and text in outcome.err
