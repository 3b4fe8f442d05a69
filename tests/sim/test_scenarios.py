"""Every scenario both ways, and everything that tells of them: terminal, JSON, page, gallery."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

import msgspec
import pytest

from epoka.fencing import RULES
from epoka.sim.scenarios import SCENARIOS, Outcome, Scenario, gallery, run
from epoka.sim.scenarios.chart import MESSAGE
from epoka.sim.scenarios.page import page, picture
from epoka.sim.scenarios.text import told
from tests.cli.commands import inside

EVERY = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=list(SCENARIOS))
_PLAYED: dict[tuple[str, bool], Outcome] = {}


def played(scenario: Scenario, *, without_rule: bool = False) -> Outcome:
    """Each is played once: it is the same every time."""
    key = (scenario.name, without_rule)
    if key not in _PLAYED:
        _PLAYED[key] = run(scenario, without_rule=without_rule)
    return _PLAYED[key]


@EVERY
def test_with_its_rule_it_ends_as_its_story_says(scenario):
    outcome = played(scenario)
    assert outcome.as_told, "\n".join(told(outcome))
    assert outcome.safe != scenario.loses_anyway


@EVERY
def test_without_its_rule_the_named_checker_sees_the_harm(scenario):
    outcome = played(scenario, without_rule=True)
    assert outcome.harm is not None, "\n".join(told(outcome))
    assert outcome.harm.checker.startswith(scenario.harm), "\n".join(told(outcome))
    assert outcome.as_told


@EVERY
def test_a_rule_that_is_switched_off_is_one_that_refused(scenario):
    """Otherwise the schedule would show nothing of it."""
    unknown = [rule for rule in scenario.rules if rule not in RULES]
    assert not unknown
    if scenario.rules and not RULES[scenario.rules[0]].refuses_when.startswith("never"):
        refused = [rule for rule in played(scenario).refusals if rule in scenario.rules]
        assert refused, f"none of {scenario.rules} refused anything"
        assert not set(played(scenario, without_rule=True).refusals) & set(scenario.rules)


@EVERY
def test_a_scenario_names_what_keeps_it_safe_and_how_to_take_it_away(scenario):
    assert scenario.protection
    assert scenario.loses_anyway or scenario.rules or scenario.mutant or scenario.below is not None


@EVERY
def test_the_page_has_every_message_and_nothing_from_outside(scenario):
    for without_rule in (False, True):
        outcome = played(scenario, without_rule=without_rule)
        drawn = page(outcome)
        text = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", drawn)).split())
        titles = re.findall(r"<g><title>([^<]+)</title>", drawn)
        messages = [line for line in outcome.lines if line.kind == MESSAGE]
        assert messages
        assert [html.unescape(title) for title in titles] == [
            f"{line.sender} to {line.receiver}: {line.name}" for line in messages
        ]
        for line in outcome.lines:
            assert " ".join(line.text.split()) in text
            for verdict in line.verdicts:
                assert verdict.rule in text and verdict.given in text and verdict.expected in text
        assert not re.search(r"(src|href|url\(|@import|https?:)", drawn)


def test_the_same_scenario_is_the_same_run():
    scenario = SCENARIOS["kip-903-six-steps"]
    one, other = run(scenario), run(scenario)
    assert one.trace == other.trace and one.lines == other.lines


def test_an_outcome_that_is_not_as_told_is_a_failure():
    """A scenario whose rule is kept but whose harm is expected must not pass."""
    outcome = played(SCENARIOS["kip-903-six-steps"])
    changed = msgspec.structs.replace(outcome, expected="2:")
    assert outcome.as_told and not changed.as_told
    assert any("NOT what the story says" in line for line in told(changed))


@pytest.mark.parametrize("document", ["KIP-380", "the cache KIP", "KIP-343", "KIP-841", "KIP-903"])
def test_every_document_has_a_scenario(document):
    assert [scenario for scenario in SCENARIOS.values() if scenario.document.startswith(document)]


@pytest.mark.parametrize("number", [9839, 14144, 14154, 15221, 16952, 18991])
def test_every_bug_of_kafka_that_was_promised_has_a_scenario(number):
    assert SCENARIOS[f"kafka-{number}"].document == f"KAFKA-{number}"


# The command.


def test_the_list_names_every_scenario():
    plain, structured = inside("scenario", "list"), inside("scenario", "list", "--json")
    assert (plain.code, structured.code) == (0, 0)
    assert [row["name"] for row in structured.json] == list(SCENARIOS)
    assert all(name in plain.out for name in SCENARIOS)


def test_a_run_is_told_with_its_refusal_and_both_numbers():
    outcome = inside("scenario", "run", "kip-903-six-steps")
    assert outcome.code == 0, outcome.err
    assert "broker 1 -> controller" in outcome.out
    assert re.search(r"isr\.generation refuses with INELIGIBLE_REPLICA: given .*, expected", outcome.out)
    assert "safe:" in outcome.out and "\x1b[" not in outcome.out
    assert "again: epoka scenario run kip-903-six-steps\n" in outcome.out


def test_without_its_rule_a_run_shows_the_harm_and_is_still_as_told():
    outcome = inside("scenario", "run", "kip-903-six-steps", "--without-rule", "--json")
    assert outcome.code == 0
    assert outcome.json["safe"] is False and outcome.json["as_told"] is True
    assert outcome.json["harm"]["checker"].startswith("2:")


def test_a_page_is_written_and_a_bad_path_is_one_line(tmp_path):
    path = tmp_path / "chart.html"
    assert inside("scenario", "run", "kip-903-six-steps", "--html", str(path)).code == 0
    assert path.read_text(encoding="utf-8") == page(played(SCENARIOS["kip-903-six-steps"]))
    outcome = inside("scenario", "run", "kip-903-six-steps", "--html", str(tmp_path / "no" / "chart.html"))
    assert outcome.code == 1 and len(outcome.err.splitlines()) == 1


def columns_with_an_end(svg: str) -> set[str]:
    """Whose life line is dotted somewhere."""
    at = dict(re.findall(r'<text class="who" x="(\d+)"[^>]*>([^<]+)<', svg))
    return {at[x] for x in re.findall(r'<line class="lane dead" x1="(\d+)"', svg)}


def test_a_life_line_ends_for_whoever_ended_and_not_for_whoever_tells_of_it():
    stopped = picture(played(SCENARIOS["kip-380-stop-replica"]))
    assert "its session ended" in re.sub(r"<[^>]*>", " ", stopped).replace("  ", " ")
    assert columns_with_an_end(stopped) == {"broker 3"}
    assert columns_with_an_end(picture(played(SCENARIOS["kip-343-duplicate-id"]))) == {"broker 3 (second)"}


@EVERY
def test_a_picture_is_a_file_of_its_own(scenario):
    root = ElementTree.fromstring(picture(played(scenario)))
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and root.find(".//{*}style") is not None


def test_a_name_that_is_none_is_a_mistake_of_the_user():
    outcome = inside("scenario", "run", "kip-999")
    assert outcome.code == 2 and "kip-999" in outcome.err
    assert inside("scenario", "run").code == 2


def test_the_gallery_is_what_the_scenarios_do():
    assert gallery.PAGE.read_text(encoding="utf-8") == gallery.written(), (
        "docs/scenarios.md is out of date: python -m epoka.sim.scenarios.gallery"
    )
