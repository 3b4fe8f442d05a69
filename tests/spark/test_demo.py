"""`epoka demo` with Spark: two streams account for every record through a bounce, and a page tells of it."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epoka.cli import demo, demo_spark
from epoka.cli.main import run as epoka
from epoka.spark.audit.run import table


@pytest.fixture
def same_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def session(_: Path) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr(demo_spark, "session", session)


@pytest.mark.timeout(300)
def test_the_demo_accounts_for_every_record_on_spark_and_writes_the_report(
    spark: Any, same_session: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "demo"
    code = epoka(["demo", "--records", "3000", "--to", str(target), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (code, told["problems"]) == (0, [])
    found = told["spark"]
    assert (found["acknowledged"], found["present"], found["lost"], found["duplicated"]) == (3000, 3000, 0, 0)
    assert found["refused"]["heartbeat.session"] >= 1
    assert found["failover_ms"] > 0
    assert found["violations"] == {}
    # The bounce that was made is the bounce that the tables tell of.
    broker, (old, new) = told["bounced"]["broker"], told["bounced"]["generations"]
    lives = table(spark, target / "audit", "generations").where(f"broker = {broker}").collect()
    assert [(row.generation, row.ended) for row in sorted(lives)][:2] == [(old, "fenced"), (new, "lives")]
    page = (target / "report.html").read_text()
    assert "what clients were told" in page
    assert "killed" in page
    # Its own folder may be written again, and nobody else's.
    demo_spark._make_room(target)
    assert [each.name for each in target.iterdir()] == [demo_spark.MARK]


def test_a_folder_that_no_demo_has_made_is_left_alone(
    same_session: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("all of it")
    assert epoka(["demo", "--to", str(tmp_path)]) == 1
    assert "holds something that no demo has written" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").read_text() == "all of it"


def test_without_spark_the_demo_says_so_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with monkeypatch.context() as patched:
        patched.delitem(sys.modules, "epoka.cli.demo_spark")
        patched.setitem(sys.modules, "pyspark", None)
        with demo._spark(True, tmp_path, said.append) as watch:
            assert watch is None
    assert said == [
        "pyspark is not installed, so the demo goes on without Spark and writes no report; "
        "`pip install 'epoka[spark]'` brings it"
    ]

    @contextlib.contextmanager
    def no_java(_: Path) -> Iterator[Any]:
        raise demo_spark.NoSpark("Spark needs Java 17 or newer: none is here.")
        yield

    monkeypatch.setattr(demo_spark, "session", no_java)
    with demo._spark(True, tmp_path / "demo", said.append) as watch:
        assert watch is None
    assert said[-1].startswith("Spark needs Java 17 or newer: none is here; the demo goes on without")
    with demo._spark(False, tmp_path, said.append) as watch:
        assert watch is None


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ({"lost": 2, "present": 8}, "records that were acknowledged and are lost: 2"),
        ({"duplicated": 1, "present": 11}, "records that are there more than once: 1"),
        ({"reordered": 3}, "records out of order: 3"),
        ({"present": 12}, "10 records were acknowledged, 12 are there"),
        ({"violations": {"leader-is-in-isr": 1}}, "violated 1 times: leader-is-in-isr"),
    ],
)
def test_anything_wrong_is_a_problem(harm: dict[str, Any], told: str) -> None:
    good: dict[str, Any] = {"acknowledged": 10, "present": 10, "lost": 0, "duplicated": 0, "reordered": 0}
    good |= {"batches": 1, "refused": {}, "failover_ms": 1, "events": 1, "generations": 3, "violations": {}}
    assert demo_spark.Watched(**good, tables="", report="").problems == []
    assert demo_spark.Watched(**{**good, **harm}, tables="", report="").problems == [told]
