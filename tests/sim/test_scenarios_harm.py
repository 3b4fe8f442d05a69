"""Without its rule a story must end in harm, not in a checker's word that the rule is missing."""

from __future__ import annotations

import msgspec
import pytest

from epoka.sim.checkers import Checkers
from epoka.sim.scenarios import SCENARIOS, Outcome, Scenario, kip_841, run
from epoka.sim.scenarios.story import NOT_KEPT, Story
from epoka.sim.scenarios.text import told

EVERY = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=list(SCENARIOS))

RESTATED_BY = {
    "control.*": "17:",
    "registration.cluster": "16:",
    "registration.incarnation": "15:",
    "heartbeat.session": "14:",
    "heartbeat.contact": "11:",
    "isr.eligible": "9:",
    "leader.eligible": "9:",
}
"""Rules, and the checker that sees only that the rule is not kept (docs/track-record.md says why)."""

RESTATING = tuple(dict.fromkeys(RESTATED_BY.values()))
NOTED = {name: scenario for name, scenario in SCENARIOS.items() if scenario.restated_by}
EVERY_NOTED = pytest.mark.parametrize("scenario", NOTED.values(), ids=list(NOTED))


@pytest.fixture
def nobody_restates(monkeypatch):
    """The checkers that restate a rule say nothing, whatever the scenario makes of them."""
    fail = Checkers.fail

    def silenced(self: Checkers, checker: str, story: str) -> None:
        if not checker.startswith(RESTATING):
            fail(self, checker, story)

    monkeypatch.setattr(Checkers, "fail", silenced)


def notes(outcome: Outcome) -> list[str]:
    return [line.text for line in outcome.lines if line.text.startswith(NOT_KEPT)]


@EVERY
@pytest.mark.usefixtures("nobody_restates")
def test_harm_is_noticed_though_nobody_restates_the_rule(scenario):
    outcome = run(scenario, without_rule=True)
    assert outcome.harm is not None, "\n".join(told(outcome))
    assert outcome.as_told and not outcome.harm.checker.startswith(RESTATING)


@EVERY_NOTED
def test_that_the_rule_is_not_kept_is_noted_once_and_never_while_it_is(scenario):
    (note,) = notes(run(scenario, without_rule=True))
    assert note.startswith(f"{NOT_KEPT} [{scenario.restated_by}")
    assert not notes(run(scenario))


@EVERY_NOTED
def test_what_a_scenario_takes_for_a_restatement_is_one(scenario):
    assert scenario.restated_by in RESTATING
    for rule in scenario.rules:
        family = "control.*" if rule.startswith("control.") else rule
        assert RESTATED_BY[family] == scenario.restated_by


def test_a_story_that_ends_where_the_rule_is_broken_shows_no_harm():
    """Otherwise the test above would pass for a story that claims more than it shows."""

    def schedule(story: Story) -> None:
        proposal = kip_841.up_to_the_proposal(story)
        story.crash(kip_841.LEAVER)
        story.until_fenced(kip_841.LEAVER)
        story.release(proposal)
        story.run(50)
        story.restart(kip_841.LEAVER)
        story.must_heal()

    scenario: Scenario = msgspec.structs.replace(SCENARIOS["kip-841-fenced-replica"], schedule=schedule)
    outcome = run(scenario, without_rule=True)
    assert notes(outcome) and outcome.safe and not outcome.as_told


def test_with_the_rule_the_checker_that_restates_it_still_ends_a_run():
    """A core that breaks its rule while it is switched on must not pass for a note."""

    def schedule(story: Story) -> None:
        story.watch()
        story.checkers.fail("9: only the active are in sync", "planted")

    scenario = msgspec.structs.replace(SCENARIOS["kip-841-fenced-replica"], schedule=schedule)
    outcome = run(scenario)
    assert outcome.harm is not None and outcome.harm.checker.startswith("9:")
