"""What measures the mutants and compares runs: it counts rightly, goes on where it was, and can object."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import campaign
from benchmarks.mutants import AIMED, PIECE, UNIFORM, Measurement, Piece, Seen, open_mutants, told
from benchmarks.twice import compare
from benchmarks.twice import main as twice
from epoka.sim.fleet import Work, Worked
from epoka.sim.mutants import MUTANTS
from epoka.sim.runner import Options


def _seen(*figures: int | str) -> list[Seen]:
    return [
        Seen("rule", AIMED, number, clean=int(figure[1:]))
        if isinstance(figure, str)
        else Seen("rule", AIMED, number, figure - 1, figure)
        for number, figure in enumerate(figures)
    ]


@pytest.mark.parametrize(
    ("figures", "median", "worst"),
    [
        ((3, 1, 2), "2", "3"),
        ((7, ">200", 4), "7", ">200"),
        ((7, ">200", ">50"), ">50", ">200"),
        ((7, ">0", ">0"), "not measured", "not measured"),
    ],
)
def test_what_was_not_noticed_counts_as_later_than_what_was(
    figures: tuple[int | str, ...], median: str, worst: str
) -> None:
    assert told(_seen(*figures)) == (median, worst)


def test_a_mutant_that_is_covered_is_looked_for_in_its_pair() -> None:
    names = {mutant.name for mutant in open_mutants([])}
    assert "isr.leader" not in names and MUTANTS["isr.leader"].covered_by in names


def test_a_measurement_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "seen"
    mutants = [MUTANTS["isr.generation"], MUTANTS["isr.eligible"]]
    first = Measurement(mutants, 1, {UNIFORM: 2 * PIECE}, path)
    (track,) = first.tracks()
    piece = first.next_piece(track)
    assert piece == Piece(UNIFORM, 0, 0, ("isr.generation", "isr.eligible"))
    first.take_in(piece, {"isr.eligible": 7})

    second = Measurement(mutants, 1, {UNIFORM: 2 * PIECE}, path)
    assert second.seen["isr.eligible", UNIFORM, 0].noticed == 7
    piece = second.next_piece(track)
    assert piece == Piece(UNIFORM, 0, PIECE, ("isr.generation",))
    second.take_in(piece, {})
    assert second.next_piece(track) is None
    assert told(second.of(mutants[0], UNIFORM)) == (f">{2 * PIECE}", f">{2 * PIECE}")


def test_two_processes_are_compared_seed_by_seed() -> None:
    compared = compare((sys.executable, sys.executable), ("1", "2"), "log", range(2), None)
    assert (compared.schedules, compared.differing) == (2, [])


def test_a_process_that_has_another_result_is_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    liar = tmp_path / "python"
    liar.write_text("#!/bin/sh\necho 3.99\necho log 0 something else\n")
    liar.chmod(0o755)
    assert twice(["--seeds", "0:1", "--modes", "log", "--python", str(liar)]) == 1
    assert "log 0" in capsys.readouterr().out


def test_a_campaign_goes_on_where_it_was_and_not_with_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaign, "PIECE", 3)
    file = tmp_path / "new" / "campaign.jsonl"
    call = ["--keep", str(file), "--processes", "1"]
    assert campaign.main([*call, "--schedules", "6"]) == 0
    before = file.read_bytes()
    python = platform.python_version()
    monkeypatch.setattr(platform, "python_version", lambda: "3.99.0")
    assert campaign.main([*call, "--schedules", "30"]) == 0
    assert file.read_bytes().startswith(before)
    told = capsys.readouterr().out
    assert f"Python {python}, 3.99.0" in told
    assert "| log | swarm | 18 | 0 |" in told and "| zookeeper | swarm | 9 | 0 |" in told
    assert "| log | every other | 3 | 0 |" in told and "| both | all | 30 | 0 |" in told
    assert campaign.main([*call, "--schedules", "60", "--minutes", "0"]) == 0
    assert "| both | all | 30 | 0 |" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="another plan"):
        campaign.main([*call, "--schedules", "5"])
    monkeypatch.setattr(campaign, "code", lambda: campaign.Code("another"))
    with pytest.raises(SystemExit, match="and this is another: remove it, or name another file"):
        campaign.main(call)


def test_a_campaign_may_begin_anywhere_and_comes_to_the_same_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "PIECE", 1)
    ran: list[range] = []

    def spread(pieces: list[Work], workers: int) -> Iterator[Worked]:
        for seeds, _ in pieces:
            ran.append(seeds)
            yield [], 0.0

    monkeypatch.setattr(campaign, "spread", spread)
    call = ["--keep", str(tmp_path / "c"), "--schedules", "4"]
    assert campaign.main([*call, "--first", "3"]) == 0
    first = [each.first for each in campaign.pieces(4)]
    assert [each.start for each in ran] == [*first[3:], *first[:3]]
    assert campaign.main(call) == 0
    assert len(ran) == 4


def test_the_pieces_of_a_campaign_never_meet_and_a_longer_one_begins_as_a_shorter() -> None:
    million = list(campaign.pieces(1_000_000))
    seeds = {(each.mode, each.profile, seed) for each in million for work, _ in each.work for seed in work}
    assert len(seeds) == 1_000_000
    assert million[: len(list(campaign.pieces(100_000)))] == list(campaign.pieces(100_000))


def test_a_campaign_with_a_violation_says_how_to_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = campaign.Piece("log", "stale-join", 0, 20)
    monkeypatch.setattr(campaign, "pieces", lambda schedules: iter([broken]))
    monkeypatch.setattr(
        campaign.Piece,
        "options",
        property(lambda piece: Options(profile=piece.profile, without=("isr.generation",))),
    )
    call = ["--keep", str(tmp_path / "kept"), "--processes", "1", "--schedules", "20"]
    assert campaign.main(call) == 1
    assert "epoka simulate" in capsys.readouterr().out
