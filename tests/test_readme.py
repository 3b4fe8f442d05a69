"""README tells the truth about what is served. Its commands are played in tests/docs."""

import re
from pathlib import Path

from epoka.broker.api import HANDLERS
from epoka.wire.apis import APIS

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
