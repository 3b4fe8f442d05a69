"""The pages that are written from the code say all that the code says, and are noticed when they are stale.

Whether those of the project are stale is a question of `make check`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from epoka.broker.api import CONTROL_HANDLERS, HANDLERS
from epoka.cli.commands import Command
from epoka.cli.main import TABLE
from epoka.fencing import RULES
from epoka.model.topic_configs import TOPIC_KEYS
from epoka.node.keys import NODE_KEYS
from epoka.reference.__main__ import PAGES, main
from epoka.wire.apis import APIS


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    assert main(["--docs", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_is_stale_or_missing_is_named(
    written: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for other in PAGES:
        (tmp_path / other).write_text((written / other).read_text())
    assert main(["--check", "--docs", str(tmp_path)]) == 0
    capsys.readouterr()
    (tmp_path / name).write_text((written / name).read_text() + "A word too many.\n")
    assert main(["--check", "--docs", str(tmp_path)]) == 1
    (tmp_path / name).unlink()
    assert main(["--check", "--docs", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == [f"{name} is stale; run python -m epoka.reference"] * 2
    assert not (tmp_path / name).exists()


def test_every_rule_key_api_and_command_has_its_row(written: Path) -> None:
    rules = (written / "rules.md").read_text()
    assert all(rules.count(f"\n| `{name}` |") == 1 for name in RULES)
    settings = (written / "configuration.md").read_text()
    assert all(f"\n| `{name}` |" in settings for name in (*NODE_KEYS, *TOPIC_KEYS))
    support = (written / "support.md").read_text()
    for handler in (*HANDLERS.values(), *CONTROL_HANDLERS.values()):
        versions = "-".join(str(version) for version in sorted(set(handler.versions)))
        assert f"\n| {APIS[handler.key].name} | {handler.key} | {versions} | " in support
    commands = (written / "commands.md").read_text()
    for entry in TABLE:
        found = entry.load()
        assert f"\n## epoka {entry.name}\n" in commands
        for verb in () if isinstance(found, Command) else found:
            assert f"\n### epoka {entry.name} {verb.name}\n" in commands


def test_a_percent_sign_is_one_sign(written: Path) -> None:
    """argparse wants it written twice in help texts; a page says what `--help` says."""
    commands = (written / "commands.md").read_text()
    (row,) = [line for line in commands.splitlines() if line.startswith("| `-f`, `--format` `FORMAT`")]
    assert "'%t [%p] %o: %k %s\\n'" in row
    (formats,) = [line for line in commands.splitlines() if "Formats: %s payload" in line]
    assert "%% a percent sign" in formats
    assert commands.index(formats) < commands.index(row) and "above" in row


def test_a_table_stays_whole_whatever_a_cell_holds(written: Path) -> None:
    for name in PAGES:
        columns = 0
        for line in (written / name).read_text().splitlines():
            if not line.startswith("|"):
                columns = 0
                continue
            cells = line.replace("\\|", "").count("|")
            columns = columns or cells
            assert cells == columns, f"{name}: {line}"
