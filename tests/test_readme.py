"""README tells the truth about what is served."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from epoka.broker.api import HANDLERS
from epoka.wire.apis import APIS
from tests.cli.commands import first_line, foreground

README = Path(__file__).parent.parent / "README.md"


def told() -> dict[str, str]:
    cells = re.findall(r"\| ([A-Z]\w+) \| (\d+(?:-\d+)?) (?=\|)", README.read_text())
    return dict(cells)


def served() -> dict[str, str]:
    return {
        APIS[handler.key].name: "-".join(str(version) for version in sorted(set(handler.versions)))
        for handler in HANDLERS.values()
    }


def test_the_support_table_is_what_the_broker_serves():
    assert told() == served()


def test_the_first_five_minutes_are_as_told(tmp_path: Path) -> None:
    (block,) = re.findall(r"## Five minutes\n\n```\n(.*?)```", README.read_text(), re.S)
    up, ready, *commands = [line for line in block.splitlines() if line]
    assert up == ".venv/bin/epoka up" and ready.startswith("ready bootstrap=127.0.0.1:9092,")
    epoka = tmp_path / "epoka"
    epoka.write_text(f'#!/bin/sh\nexec {sys.executable} -m epoka.cli.main "$@"\n')
    epoka.chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    said = []
    # Somebody else may have the port of the text.
    with foreground("up", "--port", "0", env=env) as process:
        bootstrap = first_line(process).split("bootstrap=")[1].split(",")[0].strip()
        for line in commands:
            if line.startswith("kcat") and shutil.which("kcat") is None:
                line = line.replace("kcat -b 127.0.0.1:9092 -P -t", ".venv/bin/epoka produce")
                line = line.replace("kcat -b 127.0.0.1:9092 -C -t", ".venv/bin/epoka consume")
            text = line.replace("127.0.0.1:9092", bootstrap).replace(".venv/bin/epoka", str(epoka))
            done = subprocess.run(["bash", "-c", text], env=env, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
            said.append(done.stdout)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert [said[1], said[2]] == ["hello\n", "hello\n"]
    assert "generation" in said[3] and "somebody killed broker 1 for a fast bounce" in said[4]
