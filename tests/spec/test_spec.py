"""The TLA+ specification under TLC: it holds with every rule, and each variant without one is refuted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epoka.fencing import RULES
from tests.spec.tlc import SPEC, tlc

HOLDS = sorted((SPEC / "holds").glob("*.cfg"))
BROKEN = sorted((SPEC / "broken").glob("*.cfg"))

# TLC takes all cores it is given, so its runs stay on one worker of the test run.
pytestmark = [pytest.mark.xdist_group("tlc"), pytest.mark.timeout(600)]


def promised(config: Path) -> str:
    """The invariant that the first line of a broken variant says is violated."""
    found = re.search(r"TLC finds: (\w+) is violated", config.read_text().splitlines()[0])
    assert found is not None, f"{config.name} does not say what TLC finds"
    return found.group(1)


def switched_off(config: Path) -> list[str]:
    found = re.search(r"Off = \{(.*)\}", config.read_text())
    assert found is not None
    return re.findall(r'"([^"]+)"', found.group(1))


@pytest.mark.parametrize("config", HOLDS, ids=lambda path: path.stem)
def test_with_every_rule_the_invariants_hold(config, tmp_path):
    assert switched_off(config) == []
    said = tlc(config, tmp_path)
    assert "Model checking completed. No error has been found." in said, said[-3000:]
    explored = re.search(r"(\d+) states generated, (\d+) distinct states found, 0 states left", said)
    assert explored is not None and int(explored.group(2)) > 1_000, "TLC has not explored much"


@pytest.mark.parametrize("config", BROKEN, ids=lambda path: path.stem)
def test_without_its_rule_a_variant_is_refuted(config, tmp_path):
    said = tlc(config, tmp_path)
    assert f"Invariant {promised(config)} is violated." in said, said[-3000:]


@pytest.mark.parametrize("document", ["kip-380", "cache-kip", "kip-343", "kip-841", "kip-903"])
def test_every_document_has_a_variant(document):
    assert [config for config in BROKEN if config.stem.startswith(document)]


def test_what_is_switched_off_is_a_rule_of_the_code_or_explained():
    explained = (SPEC / "README.md").read_text()
    specification = (SPEC / "Generations.tla").read_text()
    for config in BROKEN:
        assert switched_off(config), config.name
        for name in switched_off(config):
            assert f'"{name}"' in specification, f"{config.name} switches off {name}, which nothing asks for"
            assert name in RULES or f"`{name}`" in explained, f"nobody explains {name}"


def test_the_readme_lists_every_configuration():
    listed = set(re.findall(r"`(?:holds|broken)/([a-z0-9-]+)`", (SPEC / "README.md").read_text()))
    assert listed == {config.stem for config in (*HOLDS, *BROKEN)}
