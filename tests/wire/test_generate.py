"""The generator: what it writes, that it is deterministic, and that the committed classes are not stale."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from epoka.wire import generate
from epoka.wire.notation import parse

SCHEMA = """\
# Ping: is anybody there?

api 77 Ping

request 0-2 flexible 1+
  token: uuid
  hops: [Hop]?
    node_id: int32   # who passed it on
  state: State 1+ @3
    name: string = unknown
  payload: bytes? = null

response 0-2 flexible 1+
  ok: bool = true
"""


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    schemas, messages = tmp_path / "schemas", tmp_path / "messages"
    schemas.mkdir()
    messages.mkdir()
    (schemas / "ping.msg").write_text(SCHEMA)
    return schemas, messages


def run(folders: tuple[Path, Path], *options: str) -> int:
    return generate.main([*options, "--schemas", str(folders[0]), "--messages", str(folders[1])])


def test_the_committed_classes_are_what_the_schemas_say() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "epoka.wire.generate", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_class_is_frozen_and_has_a_default_for_every_field() -> None:
    namespace: dict[str, object] = {"__name__": "ping"}
    exec(generate.module_source(parse(SCHEMA), "ping"), namespace)
    assert namespace["__all__"] == ["Hop", "PingRequest", "PingResponse", "State"]
    request = namespace["PingRequest"]()  # type: ignore[operator]
    assert (request.hops, request.payload, request.state.name) == ((), None, "unknown")
    assert (request.API_KEY, request.MIN_VERSION, request.MAX_VERSION, request.FLEXIBLE_FROM) == (77, 0, 2, 1)
    assert request.NAME == "PingRequest"
    with pytest.raises(AttributeError):
        request.hops = ()


def test_comments_are_carried_over() -> None:
    text = generate.module_source(parse(SCHEMA), "ping")
    assert text.startswith("# Generated from schemas/ping.msg by epoka.wire.generate; do not edit.\n")
    assert ast.get_docstring(ast.parse(text)) == "Ping: is anybody there?"
    assert "    # who passed it on\n    node_id: int = 0\n" in text


def test_the_order_of_hashes_does_not_change_the_text(folders: tuple[Path, Path]) -> None:
    texts = set()
    for seed in ("0", "1", "2"):
        code = (
            "from pathlib import Path; from epoka.wire import generate;"
            f"print(generate.generated(Path({str(folders[0])!r})))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        texts.add(done.stdout)
    assert len(texts) == 1


def test_check_notices_stale_missing_and_surplus_files(folders: tuple[Path, Path]) -> None:
    messages = folders[1]
    assert run(folders, "--check") == 1
    assert not list(messages.iterdir())
    assert run(folders) == 0
    assert sorted(path.name for path in messages.iterdir()) == ["index.py", "ping.py"]
    assert run(folders, "--check") == 0

    (messages / "ping.py").write_text((messages / "ping.py").read_text() + "\n# edited\n")
    assert run(folders, "--check") == 1
    assert run(folders) == 0

    (messages / "gone.py").write_text(
        "# Generated from schemas/gone.msg by epoka.wire.generate; do not edit.\n"
    )
    (messages / "by_hand.py").write_text("# Written by a person.\n")
    assert run(folders, "--check") == 1
    assert run(folders) == 0
    assert sorted(path.name for path in messages.iterdir()) == ["by_hand.py", "index.py", "ping.py"]


def test_a_broken_schema_is_reported_and_nothing_is_written(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (folders[0] / "broken.msg").write_text("api 1 Broken\nrequest 0-1\n  a: int9\n")
    assert run(folders) == 1
    assert "broken.msg:3: unknown type 'int9'" in capsys.readouterr().err
    assert not list(folders[1].iterdir())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SCHEMA.replace("Ping", "Pong"), "API key 77 belongs to Ping"),
        ("api 78 Half\nrequest 0-1\n  a: int8\n", "needs a request and a response"),
        ("api 78 Odd\nrequest 0-1\n  a: int8\nresponse 0-2\n  a: int8\n", "different versions"),
    ],
)
def test_an_api_that_does_not_fit_the_table_is_refused(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (folders[0] / "pong.msg").write_text(text)
    assert run(folders) == 1
    assert words in capsys.readouterr().err
