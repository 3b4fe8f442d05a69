"""What the pages tell their readers to run does run.

The commands of the README and of the quick start are played on one cluster, each page in its order. The
README's first one is `epoka up` without a folder; tests/cli starts that, and it is not started again here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from epoka.cli.commands import Command
from epoka.cli.main import TABLE
from tests.docs.shell import ROOT, Step, Terminal, blocks, recipe, steps

README = ROOT / "README.md"
QUICKSTART = ROOT / "docs" / "quickstart.md"
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "spec" / "README.md",
    *sorted(ROOT.glob("examples/*/README.md")),
]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.leave()


def told(page: Path, *, make: bool) -> list[Step]:
    return [step for step in steps(page) if step.text.startswith("make ") is make]


@pytest.mark.timeout(300)
def test_the_quick_start_and_the_first_five_minutes_are_as_told(terminal: Terminal) -> None:
    said = {step.text: terminal.play(step) for step in told(QUICKSTART, make=False)}
    assert "its lives were generations" in said["epoka why broker 2"]
    assert "refused" in said["epoka ledger --refused"]
    assert "\nharm" in said["epoka scenario run kip-903-six-steps --without-rule"]
    assert "1 passed" in said["pytest test_orders.py"]

    up, *rest = told(README, make=False)
    assert up.text == ".venv/bin/epoka up" and up.prints[0].startswith("ready bootstrap=127.0.0.1:9092,")
    said = {step.text: terminal.play(step) for step in rest}
    assert "generation" in said[".venv/bin/epoka node bounce 1 --how fast"]
    assert "somebody killed broker 1 for a fast bounce" in said[".venv/bin/epoka why broker 1"]
    terminal.stop()


def test_what_the_pages_make_exists() -> None:
    asked = {step.text.split()[1] for page in (README, QUICKSTART) for step in told(page, make=True)}
    assert asked == {"demo", "test"}
    # The demo itself is a test of the command line's; `make test` runs this very test.
    (demo,) = recipe("make demo")
    assert (
        demo.startswith(".venv/bin/epoka demo") and complaint(demo.removeprefix(".venv/bin/epoka ")) is None
    )
    assert any("pytest" in line for line in recipe("make test"))
    assert any("properdocs build" in line for line in recipe("make docs"))


def test_every_block_with_commands_is_one_that_is_played() -> None:
    for page in (README, QUICKSTART):
        assert set(blocks(page)) <= {"", "console", "python"}
        plain = re.findall(r"^```\n(.*?)^```", page.read_text("utf-8"), re.S | re.M)
        for block in plain:
            assert not re.search(r"^(\$ |make |epoka |\.venv|pip |kcat )", block, re.M), block


def mentions(text: str) -> Iterator[str]:
    """Every `epoka ...` in a block or in a line of code, up to whatever the shell would end it at."""
    fenced = re.compile(r"^```\w*\n(.*?)^```", re.S | re.M)
    for block in fenced.findall(text):
        yield from re.findall(r"^(?:\$ )?(?:.*[|(] *)?(?:\.venv/bin/)?epoka +([^|#;)\n]*)", block, re.M)
    yield from re.findall(r"^    epoka +([^|#;\n]*)", text, re.M)
    yield from re.findall(r"(?<!`)`epoka +([^`]+)`", fenced.sub("", text))


def complaint(mention: str) -> str | None:
    """What the command line would not understand of it."""
    words = [word.rstrip(".,;:") for word in shlex.split(mention.replace("'", '"').replace("\n", " "))]
    if not words[0]:
        return None
    entry = next((each for each in TABLE if each.name == words[0]), None)
    if entry is None:
        return f"there is no command {words[0]!r}"
    found = entry.load()
    commands = [found] if isinstance(found, Command) else list(found)
    if not isinstance(found, Command) and words[1:] and re.fullmatch(r"[a-z|-]+", words[1]):
        names = words[1].split("|")
        if unknown := set(names) - {each.name for each in found}:
            return f"there is no verb {unknown} in `epoka {entry.name}`"
        commands = [each for each in found if each.name in names]
    known = {
        name for each in commands for action in each.parser("")._actions for name in action.option_strings
    }
    for word in words[1:]:
        name = word.strip("[]").partition("=")[0]
        if name.startswith("--") and name not in known:
            return f"there is no option {name}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_is_mentioned_is_understood(page: Path) -> None:
    wrong = {mention: said for mention in mentions(page.read_text("utf-8")) if (said := complaint(mention))}
    assert not wrong


def test_a_mention_that_nobody_understands_is_noticed() -> None:
    text = (
        "`epoka up --brokesr 3`\n```\n$ seq 3 | epoka prodcue x\n```\n```console\n$ epoka topic kill x\n```\n"
    )
    assert [complaint(each) is not None for each in mentions(text)] == [True, True, True]
    assert complaint("topic describe --unavailable-partitions") is None


@pytest.mark.parametrize(
    "page", [README, *ROOT.glob("examples/*/README.md")], ids=lambda page: page.parent.name
)
def test_links_of_pages_outside_the_site_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")):
        assert "://" in target or (page.parent / target).exists(), target
