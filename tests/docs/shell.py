"""Plays the commands of a page in a folder of their own, as somebody would who types them in order.

A block of `console` is a list of commands behind `$ `, each with what it prints, as far as the page shows it.
`epoka up` stays and ends the one before it. A block of `python` is run, or saved when its first line names a
file. Ports are other ones than in the text, for somebody may have those.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
QUICK = ("broker.heartbeat.interval.ms=500", "controller.heartbeat.timeout.ms=3000")
"""A dead broker is noticed soon."""
PATIENCE_S = 100


class Step(NamedTuple):
    kind: str
    """`console` or `python`."""
    text: str
    prints: tuple[str, ...] = ()


def steps(page: Path) -> list[Step]:
    """Everything that the page tells its reader to run, in order."""
    found: list[Step] = []
    for kind, block in re.findall(r"^```(console|python)\n(.*?)^```", page.read_text("utf-8"), re.S | re.M):
        if kind == "python":
            found.append(Step(kind, block))
            continue
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Step(kind, line.removeprefix("$ ")))
            elif line:
                found[-1] = found[-1]._replace(prints=(*found[-1].prints, line))
    return found


def blocks(page: Path) -> list[str]:
    """The language of every fenced block of the page."""
    return re.findall(r"^```(\w*)\n.*?^```$", page.read_text("utf-8"), re.S | re.M)


class Terminal:
    """A folder with a `.venv` of its own that leads to this Python."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bootstrap = ""
        self._up: subprocess.Popen[str] | None = None
        bin = folder / ".venv" / "bin"
        bin.mkdir(parents=True)
        for name, module in (("epoka", "epoka.cli.main"), ("pytest", "pytest")):
            command = bin / name
            command.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
            command.chmod(0o755)
        (bin / "activate").write_text("")
        (folder / "tmp").mkdir()
        self.environment = {
            "PATH": f"{bin}:/usr/bin:/bin",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "TMPDIR": str(folder / "tmp"),
            "HOME": str(folder),
        }

    def play(self, step: Step) -> str:
        """Run the step; it must succeed and print what the page says. Returns what it printed."""
        if step.kind == "python":
            return self._python(step.text)
        if re.match(r"(\.venv/bin/)?epoka up\b", step.text):
            said = self._start(step.text)
            assert _shape(said) == _shape(step.prints[0]), said
            return said
        said = self._bash(step.text)
        assert not step.prints or said.splitlines() == list(step.prints), f"{step.text}\n{said}"
        return said

    def stop(self) -> None:
        """Ctrl-C in the first terminal: a controlled shutdown."""
        if self._up is None:
            return
        up, self._up = self._up, None
        up.send_signal(signal.SIGINT)
        _, complaints = up.communicate(timeout=PATIENCE_S)
        assert up.returncode == 0, complaints

    def leave(self) -> None:
        """Whatever happened, nothing is left behind."""
        if self._up is not None:
            self._up.kill()
            self._up.communicate()

    def _start(self, text: str) -> str:
        self.stop()
        _, *words = text.split()
        settings = [word for setting in QUICK for word in ("--config", setting)]
        # A cluster that was started before keeps its ports as far as they are free; a new one takes any.
        self._up = subprocess.Popen(
            [sys.executable, "-m", "epoka.cli.main", *words, "--port", "0", *settings],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._up.stdout is not None and self._up.stderr is not None
        said = self._up.stdout.readline()
        assert said, self._up.stderr.read()
        self.bootstrap = said.split("bootstrap=")[1].split(",")[0].strip()
        return said

    def _python(self, code: str) -> str:
        name = re.match(r"# (\w+\.py)\n", code)
        if name is not None:
            (self.folder / name[1]).write_text(code)
            return ""
        return self._run([sys.executable, "-c", self._here(code)], code)

    def _bash(self, text: str) -> str:
        if text.startswith("kcat") and shutil.which("kcat", path=self.environment["PATH"]) is None:
            text = text.replace("kcat -b 127.0.0.1:9092 -P -t", ".venv/bin/epoka produce")
            text = text.replace("kcat -b 127.0.0.1:9092 -C -t", ".venv/bin/epoka consume")
        return self._run(["bash", "-o", "pipefail", "-c", self._here(text)], text)

    def _here(self, text: str) -> str:
        return text.replace("127.0.0.1:9092", self.bootstrap) if self.bootstrap else text

    def _run(self, words: list[str], told: str) -> str:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{told}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def recipe(text: str) -> list[str]:
    """What `make TARGET` would run here, were everything installed."""
    words = re.sub(r"\s+#.*", "", text).split()
    assert words[0] == "make" and len(words) == 2, text
    made = ["-o", ".venv/.ready", "-o", ".venv/.with-spark", "-o", ".venv/.with-extras"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "-n", *made, words[1]], cwd=ROOT, env=plain, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _shape(said: str) -> str:
    return re.sub(r":\d+", ":port", said.strip())
