"""What the site has beyond `docs/`: charts of the scenarios, pages from other folders, links that lead out.

The site generator calls the functions named `on_...`. Charts are drawn while the site is built, by playing
the scenarios: `<!-- scenario NAME -->` in a page becomes both charts of a scenario, and the gallery gets
links to all of them. A link to a file outside `docs/` that has no page here becomes plain text, after a look
whether the file is there. What is wrong is a warning, and the site is built with warnings as errors.
"""

from __future__ import annotations

import functools
import logging
import posixpath
import re
from pathlib import Path

from properdocs.config.defaults import MkDocsConfig
from properdocs.structure.files import File, Files
from properdocs.structure.pages import Page

from epoka.sim.scenarios import SCENARIOS, Outcome, run
from epoka.sim.scenarios.page import page as chart_page
from epoka.sim.scenarios.page import picture

log = logging.getLogger("properdocs.hooks.epoka")

ROOT = Path(__file__).parents[3]
ABROAD = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "spec/README.md": "specification.md",
}
"""Files of other folders that are pages of the site."""
_ORIGINS = {name: posixpath.dirname(origin) for origin, name in ABROAD.items()}

_MARK = re.compile(r"^<!-- scenario (\S+) -->$", re.M)
_HEADING = re.compile(r"^### (\S+)$", re.M)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for origin, name in ABROAD.items():
        text = (ROOT / origin).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    name = page.file.src_uri
    markdown = _LINK.sub(lambda found: _link(found, name), markdown)
    charts = _Charts(files, config)
    if name == "scenarios.md":
        return _HEADING.sub(lambda found: f"{found[0]}\n\n{_links(found[1], charts)}", markdown)
    return _MARK.sub(lambda found: _figures(found[1], name, charts), markdown)


class _Charts:
    """The charts that pages ask for, each drawn once."""

    def __init__(self, files: Files, config: MkDocsConfig) -> None:
        self._files = files
        self._config = config

    def stem(self, name: str, without: bool) -> str:
        """Where the chart is, without what its name ends with."""
        stem = f"charts/{name}{'-without' if without else ''}"
        if self._files.get_file_from_path(f"{stem}.svg") is None:
            outcome = _played(name, without)
            self._files.append(File.generated(self._config, f"{stem}.html", content=chart_page(outcome)))
            self._files.append(File.generated(self._config, f"{stem}.svg", content=picture(outcome)))
        return stem


@functools.cache
def _played(name: str, without: bool) -> Outcome:
    return run(SCENARIOS[name], without_rule=without)


def _links(name: str, charts: _Charts) -> str:
    return (
        f"Charts: [with it]({charts.stem(name, False)}.html), [without it]({charts.stem(name, True)}.html)."
    )


def _figures(name: str, where: str, charts: _Charts) -> str:
    """Both charts, each under a line that says how it ended."""
    scenario = SCENARIOS.get(name)
    if scenario is None:
        log.warning("%s: there is no scenario %s", where, name)
        return ""
    runs = [False] if scenario.loses_anyway else [False, True]
    return "\n\n".join(_figure(name, without, charts.stem(name, without)) for without in runs)


def _figure(name: str, without: bool, stem: str) -> str:
    outcome = _played(name, without)
    scenario = SCENARIOS[name]
    kept = "it" if scenario.guard else ", ".join(f"`{rule}`" for rule in scenario.rules)
    begin = "In any case: " if scenario.loses_anyway else f"{'Without' if without else 'With'} {kept}: "
    harm = outcome.harm
    end = f"harm.** Seen by *{harm.checker}*: {harm.story}." if harm else "safe.**"
    again = f"`epoka scenario run {name}{' --without-rule' if without else ''}`"
    # An image in a link is Markdown, so that the generator sees to it that both files are there.
    image = f"[![{outcome.title}: {'harm' if harm else 'safe'}]({stem}.svg)]({stem}.html)"
    return f'**{begin}{end} {again}\n\n<div class="chart" markdown="1">\n{image}\n</div>'


def _link(found: re.Match[str], page: str) -> str:
    label, target, anchor = found[1], found[2], found[3] or ""
    if "://" in target or target.startswith("mailto:"):
        return found[0]
    path = posixpath.normpath(posixpath.join(_ORIGINS.get(page, "docs"), target))
    if path in ABROAD:
        return f"[{label}]({ABROAD[path]}{anchor})"
    if path.startswith("docs/"):
        return f"[{label}]({path.removeprefix('docs/')}{anchor})"
    if path.startswith("../") or not (ROOT / path).exists():
        log.warning("%s: the link to %s leads nowhere", page, target)
    return label if label.startswith("`") else f"`{label}`"
