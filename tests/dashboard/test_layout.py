"""How a message that is JSON is laid out. Runs the page's own script, in node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import epoka.dashboard

STATIC = Path(epoka.dashboard.__file__).parent / "static"

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def laid_out(tmp_path: Path, *texts: str) -> list[str | None]:
    script = tmp_path / "layout.mjs"
    script.write_bytes((STATIC / "layout.js").read_bytes())
    ask = "import {laidOut} from './layout.mjs'; import {readFileSync} from 'node:fs';" + (
        "console.log(JSON.stringify(JSON.parse(readFileSync(0)).map(laidOut)))"
    )
    command = ["node", "--input-type=module", "-e", ask]
    run = subprocess.run(
        command, input=json.dumps(texts), capture_output=True, text=True, check=True, cwd=tmp_path
    )
    found: list[str | None] = json.loads(run.stdout)
    return found


def test_json_is_laid_out_as_people_write_it(tmp_path: Path) -> None:
    given = {"a": [1, {"b": None, "c": []}, 'x, {y}: \\" [z'], "d": {}, "e": -1.5e-3}
    texts = [json.dumps(given), json.dumps(given, separators=(",", ":")), json.dumps(given, indent="\t")]
    assert laid_out(tmp_path, *texts) == [json.dumps(given, indent=2)] * 3


def test_nothing_in_it_becomes_something_else(tmp_path: Path) -> None:
    text = r'{"id":12345678901234567890,"price":1.10,"name":"\u202egnp.exe","id":7}'
    (found,) = laid_out(tmp_path, text)
    assert found is not None
    assert "".join(found.split()) == text


def test_what_is_no_json_or_too_deep_is_left_as_it_is(tmp_path: Path) -> None:
    assert laid_out(tmp_path, "{no", "[1] 2", "[" * 20_000 + "]" * 20_000) == [None, None, None]
