"""Writes the pages that come from the code, or with `--check` says which are stale."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from epoka.reference import commands, configuration, rules, support

DOCS = Path(__file__).parents[3] / "docs"
PAGES: dict[str, Callable[[], str]] = {
    "rules.md": rules.written,
    "support.md": support.written,
    "configuration.md": configuration.written,
    "commands.md": commands.written,
}


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m epoka.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 when a page is stale")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder of the pages")
    options = parser.parse_args(words)
    stale = []
    for name, written in PAGES.items():
        path, text = options.docs / name, written()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not options.check:
            path.write_text(text, encoding="utf-8")
    for name in stale:
        said = "is stale; run python -m epoka.reference" if options.check else "written"
        sys.stderr.write(f"{name} {said}\n")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
