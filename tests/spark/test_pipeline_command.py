"""What `epoka pipeline` hands to Spark, and what it says when there is no Spark to hand it to."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epoka.cli import pipeline
from epoka.cli.finding import ClientConfig
from epoka.client.settings import settings_from
from epoka.spark.options import read_options
from tests.cli.commands import epoka, inside, is_one_line

CLIENT = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "secret",
    "client.id": "copier",
    "request.timeout.ms": "7000",
}


class Captured(Exception):
    """The options that a job was called with."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs tell their options and do nothing, and no other test hears of a client's file."""

    @contextlib.contextmanager
    def session(_: str | None) -> Iterator[None]:
        yield None

    def capture(_: Any, options: dict[str, str], *rest: Any, **more: Any) -> None:
        raise Captured(options)

    monkeypatch.setattr(pipeline, "_session", session)
    monkeypatch.setattr("epoka.spark.topics.copy_topics", capture)
    monkeypatch.setattr("epoka.spark.audit.run.audit_topic", capture)
    for name in ("settings", "reaching"):
        monkeypatch.setattr(ClientConfig, name, getattr(ClientConfig, name))


@pytest.mark.parametrize("words", [["topics", "orders"], ["audit"]], ids=["topics", "audit"])
def test_a_client_s_file_says_how_spark_reaches_the_cluster(
    no_session: None, tmp_path: Path, words: list[str]
) -> None:
    file = tmp_path / "client.properties"
    other = {"acks": "1", "group.id": "mine", "auto.offset.reset": "latest"}
    file.write_text("".join(f"{name}={value}\n" for name, value in {**CLIENT, **other}.items()))
    where = ["--bootstrap", "broker:9", "--command-config", str(file), "--to", str(tmp_path / "to")]
    with pytest.raises(Captured) as captured:
        inside("pipeline", *words, *where)
    told = read_options({"subscribe": "orders", **captured.value.options}, streaming=True)
    assert told.client == settings_from({"bootstrap.servers": "broker:9", **CLIENT})
    # What is about something else is left to Spark.
    assert captured.value.options.keys() & {f"kafka.{name}" for name in other} == set()


def test_an_option_has_the_last_word_over_a_client_s_file(no_session: None, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=file\n")
    where = ["--bootstrap", "broker:9", "--command-config", str(file), "--to", str(tmp_path / "to")]
    with pytest.raises(Captured) as captured:
        inside("pipeline", "topics", "orders", *where, "--option", "kafka.client.id=option")
    assert captured.value.options["kafka.client.id"] == "option"


@pytest.mark.parametrize(
    "words",
    [["audit", "ledger.jsonl"], ["topics", "t", "--bootstrap", "localhost:1"]],
    ids=["audit", "topics"],
)
def test_without_the_extra_it_is_said_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    for name in ("epoka.spark.audit.run", "epoka.spark.topics"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in ("pyspark", "pyarrow", "pyarrow.compute"):
        monkeypatch.setitem(sys.modules, name, None)
    outcome = inside("pipeline", *words, "--to", str(tmp_path))
    assert outcome.code == 1
    assert is_one_line(outcome) and "pip install 'epoka[spark]'" in outcome.err


@pytest.mark.parametrize(
    ("master", "reason"),
    [("nonsense", "Java gateway process exited"), ("local[many]", "Could not parse Master URL")],
)
def test_a_master_that_cannot_be_is_one_line(master: str, reason: str) -> None:
    outcome = epoka("pipeline", "fleet", "--seeds", "0:1", "--master", master)
    # Java may have said something of its own before.
    *_, last = outcome.err.splitlines()
    assert outcome.code == 1 and "Traceback" not in outcome.err, outcome.err
    assert last.startswith("epoka: Spark did not start: ")
    assert reason in last and last.endswith(f" (its master is {master})")
