"""What controllers do in the simulator, against the specification: each decision must be one of it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from epoka.coordination.metadata_log import StoredMetadataLog
from epoka.model.image import ClusterImage
from epoka.model.levels import FeatureLevel
from epoka.model.records import MetadataRecord, decode_record
from epoka.sim import runner
from epoka.sim.scenarios import SCENARIOS, run
from tests.spec.tlc import SPEC, tlc

pytestmark = [pytest.mark.xdist_group("tlc"), pytest.mark.timeout(600)]

SEEDS = range(150)
LONGEST = 60


class Seen(msgspec.Struct, frozen=True):
    """What a controller made durable of one partition and of all brokers."""

    known: dict[int, int]
    fenced: frozenset[int]
    stopping: frozenset[int]
    leader: int
    isr: frozenset[int]
    leader_epoch: int
    partition_epoch: int


Batches = list[tuple[int, list[MetadataRecord]]]
Trace = list[Seen]


@contextmanager
def recorded() -> Iterator[Batches]:
    """Every batch that a simulated controller in log mode appends to its log, with its offset.

    A real cluster, kept for other tests, may be at work in other threads of this process.
    """
    batches: Batches = []
    append: Callable[..., int] = StoredMetadataLog.append
    simulation = threading.get_ident()

    def recording(self: StoredMetadataLog, records: Any) -> int:
        base_offset = append(self, records)
        if threading.get_ident() == simulation:
            batches.append((base_offset, [decode_record(each) for each in records]))
        return base_offset

    with patch.object(StoredMetadataLog, "append", recording):
        yield batches


def traces(batches: Batches) -> list[Trace]:
    """The states that each partition went through, as long as nobody reassigned it."""
    image = ClusterImage()
    found: dict[Any, Trace] = {}
    ended: set[Any] = set()
    replicas: dict[Any, tuple[int, ...]] = {}
    for base_offset, records in batches:
        image.apply_batch(records, base_offset)
        brokers = image.brokers.values()
        known = {int(each.id): int(each.epoch) for each in brokers}
        fenced = frozenset(int(each.id) for each in brokers if each.fenced)
        stopping = frozenset(int(each.id) for each in brokers if each.in_controlled_shutdown)
        for ref in image.all_partitions():
            key, state = (ref.topic.id, ref.index), image.state(ref)
            moved = (
                state.adding or state.removing or replicas.setdefault(key, state.replicas) != state.replicas
            )
            if moved or state.recovery or len(found.get(key, ())) >= LONGEST:
                ended.add(key)
            if key in ended:
                continue
            seen = Seen(
                known,
                fenced,
                stopping,
                int(state.leader),
                frozenset(map(int, state.isr)),
                int(state.leader_epoch),
                int(state.partition_epoch),
            )
            trace = found.setdefault(key, [])
            if not trace or trace[-1] != seen:
                trace.append(seen)
    return [trace for trace in found.values() if len(trace) > 1]


def module(all_traces: list[Trace]) -> str:
    brokers = sorted({broker for trace in all_traces for seen in trace for broker in seen.known})
    told = ",\n".join(f"<<{', '.join(_state(seen, brokers) for seen in trace)}>>" for trace in all_traces)
    return (
        "---- MODULE Seen ----\nEXTENDS TLC\n"
        f"Everybody == {{{', '.join(map(_name, brokers))}}}\n"
        f"Runs == <<\n{told}\n>>\n====\n"
    )


def _name(broker: int) -> str:
    return f'"{broker}"'


def _set(brokers: frozenset[int]) -> str:
    return "{" + ", ".join(map(_name, sorted(brokers))) + "}"


def _state(seen: Seen, brokers: list[int]) -> str:
    known = " @@ ".join(f"{_name(each)} :> {seen.known.get(each, 0)}" for each in brokers)
    leader = '"none"' if seen.leader < 0 else _name(seen.leader)
    return (
        f"[known |-> ({known}), fenced |-> {_set(seen.fenced)}, stopping |-> {_set(seen.stopping)}, "
        f"partition |-> [leader |-> {leader}, isr |-> {_set(seen.isr)}, leaderEpoch |-> {seen.leader_epoch}, "
        f"epoch |-> {seen.partition_epoch}]]"
    )


CONFIG = """\
SPECIFICATION TraceSpec
CONSTANTS
    None = "none"
    Brokers <- Everybody
    MinIsr = 2
    Shared = TRUE
    MaxRecords = 0
    MaxFaults = 0
    Off = {}
"""


def judged(all_traces: list[Trace], scratch: Path) -> str:
    """What TLC says of these traces."""
    for name in ("Generations.tla", "Trace.tla"):
        shutil.copy(SPEC / name, scratch)
    (scratch / "Seen.tla").write_text(module(all_traces))
    (scratch / "Trace.cfg").write_text(CONFIG)
    return tlc(scratch / "Trace.cfg", scratch / "states", scratch / "Trace.tla", deadlock_is_an_error=True)


def played(name: str) -> list[Trace]:
    with recorded() as batches:
        run(SCENARIOS[name])
    return traces(batches)


def test_every_decision_in_the_simulator_is_one_of_the_specification(tmp_path):
    all_traces: list[Trace] = []
    for name, scenario in SCENARIOS.items():
        if scenario.mode == "log":
            all_traces += played(name)
    for seed in SEEDS:
        with recorded() as batches:
            runner.run(seed, runner.Options(level=FeatureLevel.FETCH_EPOCHS))
        all_traces += traces(batches)
    assert len(all_traces) > 40 and sum(map(len, all_traces)) > 500
    said = judged(all_traces, tmp_path)
    assert "Model checking completed. No error has been found." in said, said[-3000:]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda seen: msgspec.structs.replace(seen, isr=seen.isr | seen.fenced),
        lambda seen: msgspec.structs.replace(seen, leader_epoch=seen.leader_epoch + 1),
    ],
    ids=["a fenced member", "an epoch for nothing"],
)
def test_a_decision_that_is_not_in_the_specification_is_noticed(wrong, tmp_path):
    (trace,) = played("kip-903-six-steps")
    at = next(at for at, seen in enumerate(trace) if seen.fenced)
    planted = [*trace[:at], wrong(trace[at]), *trace[at + 1 :]]
    assert "No error has been found" in judged([trace], _below(tmp_path, "good"))
    assert "Deadlock reached" in judged([planted], _below(tmp_path, "bad"))


def _below(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made
