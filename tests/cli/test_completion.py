"""Completion, as shells ask for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from epoka.cli.arguments.common import LEVELS
from epoka.cli.completion import SCRIPTS, candidates
from epoka.cli.main import TABLE
from epoka.model.levels import FeatureLevel
from tests.cli.commands import epoka, inside


def words(*typed: str) -> list[str]:
    return [word for word, _ in candidates(TABLE, typed)]


def test_first_words_and_verbs() -> None:
    assert words("") == [entry.name for entry in TABLE]
    assert words("con") == ["consume", "config", "controller"]
    assert words("group", "") == ["list", "describe", "reset-offsets", "delete"]
    assert words("nonsense", "") == []
    assert words("group", "nonsense", "") == []


def test_options_that_are_not_there_yet() -> None:
    assert words("group", "reset-offsets", "g", "--to-e") == ["--to-earliest"]
    assert "--to-earliest" not in words("group", "reset-offsets", "g", "--to-earliest", "--")
    assert "--json" in words("status", "--")


def test_values_that_are_known_beforehand() -> None:
    assert words("node", "bounce", "1", "--how", "u") == ["unclean"]
    assert words("config", "show", "") == ["topic", "broker"]
    assert words("level", "raise", "f") == ["fetch-epochs"]
    assert words("up", "--level", "") == list(LEVELS)
    assert words("up", "--data", "") == []


def test_the_levels_are_those_of_the_model() -> None:
    assert tuple(level.label for level in FeatureLevel) == LEVELS


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_for_every_shell(shell: str) -> None:
    assert "epoka __complete" in inside("completion", shell).out


def test_completion_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from epoka.cli.main import run\n"
        "run(['__complete', 'topic', 'describe', '--u'])\n"
        "heavy = ('typing', 'asyncio', 'msgspec', 'epoka.wire')\n"
        "print('HEAVY', [name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "--unavailable-partitions" in done.stdout
    assert done.stdout.splitlines()[-1] == "HEAVY []", done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes(tmp_path: Path) -> None:
    command = tmp_path / "epoka"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m epoka.cli.main "$@"\n')
    command.chmod(0o755)
    script = epoka("completion", "bash").out
    asked = (
        f"PATH={tmp_path}:$PATH\n{script}\nCOMP_WORDS=(epoka topic des)\nCOMP_CWORD=2\n_epoka\n"
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, timeout=60)
    assert done.stdout == "describe\n", done.stderr
