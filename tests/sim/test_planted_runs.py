"""A run asks its checkers: what is put wrong between two of its events ends it, and is named."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from epoka.model.levels import HIGHEST
from epoka.sim.checkers import Violation
from epoka.sim.oracle import Batch
from epoka.sim.runner import Options, Run
from epoka.sim.steps import Plan, Step
from epoka.sim.workload import IDEMPOTENT, PRODUCERS, Line, UnderWay

EVERY_MS, LENGTH_MS = 50, 1_000
PLAN = Plan(
    tuple(Step(at, "produce", ms=at // EVERY_MS % len(PRODUCERS)) for at in range(0, LENGTH_MS, EVERY_MS)),
    LENGTH_MS,
    HIGHEST,
)
PLANTED_MS = 510
"""Between two records; broker 1 leads."""


class Planted(Run):
    def __init__(
        self, plant: Callable[[Run], None], plan: Plan = PLAN, options: Options | None = None
    ) -> None:
        super().__init__(0, options or Options(), plan)
        self.plant = plant

    def _live(self) -> None:
        self.world.later(PLANTED_MS, self.plant, self)
        super()._live()


def _violation(run: Run) -> Violation:
    (violation,) = run.go().violations
    return violation


def test_a_run_in_which_nothing_is_put_wrong_passes() -> None:
    result = Planted(lambda run: None).go()
    assert result.ok and result.acked == len(PLAN.steps)


def test_a_quorum_without_an_isr_member_ends_a_run() -> None:
    def count_on_fewer(run: Run) -> None:
        leadership = run.world.broker(1).replicas.by_name["t", 0].leadership
        assert leadership is not None
        leadership.isr = (1, 2)
        # Or the leader would wait for it as for somebody who is about to join.
        del leadership.followers[3]

    assert _violation(Planted(count_on_fewer)).checker == "3: the quorum covers the ISR"


def test_a_committed_batch_that_no_replica_has_ends_a_run() -> None:
    def remember_another(run: Run) -> None:
        (committed,) = run.oracle.partitions.values()
        committed.batches[0] = Batch(0, 1, 0, 12345)
        # Or whoever reads everything again would be the first to notice.
        run.workload.latecomer.positions[committed.key] = committed.end

    assert _violation(Planted(remember_another)).checker == "6: nothing committed is lost"


def test_a_record_that_is_another_when_it_is_read_again_ends_a_run() -> None:
    def read_otherwise(run: Run) -> None:
        (seen,) = run.history.read.values()
        seen[0] = b"another"

    assert _violation(Planted(read_otherwise)).checker == "inconsistent-offsets"


def test_a_produce_taken_out_of_contact_ends_a_run() -> None:
    """Without the rule, or the leader would notice its silence before it takes anything."""

    def fall_silent(run: Run) -> None:
        run.world.broker(1).lifecycle.last_contact_ms -= 5_000

    run = Planted(fall_silent, options=Options(without=("heartbeat.contact",)))
    assert _violation(run).checker == "11: the isolated take nothing"


def test_an_id_taken_from_the_living_ends_a_run() -> None:
    def forget_the_session(run: Run) -> None:
        run.world.controller.state.sessions.drop(2)

    double = Step(PLANTED_MS, "duplicate-id", "broker:2", ms=400)
    run = Planted(forget_the_session, msgspec.structs.replace(PLAN, steps=(*PLAN.steps, double)))
    assert _violation(run).checker == "15: an id has one life"


# What must be well in the end.


def _never_heal(run: Run) -> None:
    assert run.nemesis is not None
    run.world.cut(1, 3)
    run.nemesis.heal = lambda: None  # type: ignore[method-assign]


def _never_answer_a_producer(run: Run) -> None:
    producer, (key,) = run.workload.producers[IDEMPOTENT], run.workload.places
    line = producer.lines[key] = Line()
    line.in_flight = 1
    line.sent[b"forgotten"] = UnderWay(run.history.sends(b"forgotten", key, IDEMPOTENT, -1, True), 0, 0, 0)


def _never_answer_a_consumer(run: Run) -> None:
    run.workload.consumer.polling.update(dict.fromkeys(run.workload.places))


@pytest.mark.parametrize(
    ("plant", "missing"),
    [
        (_never_heal, "t-0 has leader 1, ISR [1, 2] of [1, 2, 3]"),
        (_never_answer_a_producer, "b'forgotten' is not acknowledged"),
        (_never_answer_a_consumer, "a consumer has not read everything"),
    ],
)
def test_what_does_not_become_well_in_time_ends_a_run(plant: Callable[[Run], None], missing: str) -> None:
    violation = _violation(Planted(plant))
    assert violation.checker == "liveness"
    assert missing in violation.story


def test_a_cluster_that_does_not_come_up_ends_a_run() -> None:
    violation = _violation(Run(0, Options(), msgspec.structs.replace(PLAN, controllers=0)))
    assert violation.checker == "liveness"
    assert "did not come up" in violation.story
