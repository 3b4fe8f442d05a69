"""Every command on the page about the command line does what the page says: it runs, on a live cluster."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from epoka.cli.commands import Command
from epoka.cli.main import TABLE
from tests.cli.commands import first_line, foreground

PAGE = Path(__file__).parent.parent / "docs" / "command-line.md"


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.S)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


def test_every_command_on_the_page_runs(tmp_path: Path) -> None:
    epoka = tmp_path / "epoka"
    epoka.write_text(f'#!/bin/sh\nexec {sys.executable} -m epoka.cli.main "$@"\n')
    epoka.chmod(0o755)
    notes = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    quick = ("broker.heartbeat.interval.ms=500", "controller.heartbeat.timeout.ms=3000")
    settings = [word for setting in quick for word in ("--config", setting)]
    with foreground("up", "--port", "0", *settings, "--data", str(tmp_path / "data"), env=notes) as up:
        first_line(up)
        for line in commands():
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", line],
                env=notes,
                capture_output=True,
                text=True,
                timeout=60,
                stdin=subprocess.DEVNULL,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        up.send_signal(signal.SIGTERM)
        assert up.wait(60) == 0


def test_every_verb_of_the_nouns_on_the_page_is_on_it() -> None:
    text = PAGE.read_text()
    for entry in TABLE:
        found = entry.load()
        if isinstance(found, Command) or f"\n$ epoka {entry.name} " not in text:
            continue
        for verb in found:
            assert f"epoka {entry.name} {verb.name}" in text or f"`{verb.name}`" in text, verb.name
