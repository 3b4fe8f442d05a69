"""The site is built without a warning, whole in itself, with the charts of the documents in their pages."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from epoka.sim.scenarios import SCENARIOS
from tests.docs.shell import ROOT

pytest.importorskip("properdocs", reason="the extra docs is not installed")

pytestmark = pytest.mark.xdist_group("docs-site")  # it is built once

DOCUMENTS = {
    "KIP-380": "kip-380",
    "KIP-343": "kip-343",
    "the cache KIP": "update-metadata-cache",
    "KIP-841": "kip-841",
    "KIP-903": "kip-903",
}


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "properdocs", "build", "--strict", "-f", str(config), "-d", str(site)],
        capture_output=True,
        text=True,
        timeout=110,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    done = build(ROOT / "properdocs.yml", site)
    assert done.returncode == 0, done.stderr
    return site


class Loaded(HTMLParser):
    """What a page makes a browser load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        for name in ("src", "srcset", "data", "href" if tag in ("link", "image", "use") else ""):
            if given.get(name):
                self.addresses.append(str(given[name]))


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.svg")]
    assert len(pages) > 100
    for page in pages:
        for address in Loaded(page.read_text("utf-8")).addresses:
            assert not re.match(r"\w+:|//", address), f"{page.name} loads {address}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", sheet.read_text("utf-8")), sheet.name


def test_every_story_of_the_five_documents_is_in_its_page_with_both_charts(site: Path) -> None:
    for scenario in SCENARIOS.values():
        document = DOCUMENTS.get(scenario.document.split(",")[0])
        if document is None:
            continue
        text = (site / f"{document}.html").read_text("utf-8")
        for without in ("",) if scenario.loses_anyway else ("", "-without"):
            chart = f"charts/{scenario.name}{without}"
            assert f'src="{chart}.svg"' in text and f'href="{chart}.html"' in text, chart
            assert (site / f"{chart}.html").exists()
            assert (site / f"{chart}.svg").read_text("utf-8").startswith("<svg ")


def test_the_gallery_leads_to_every_chart(site: Path) -> None:
    text = (site / "scenarios.html").read_text("utf-8")
    for name in SCENARIOS:
        assert f'href="charts/{name}.html"' in text and f'href="charts/{name}-without.html"' in text


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "site.css", tmp_path / "docs")
    (tmp_path / "docs" / "index.md").write_text(
        "# A page\n\n[page](missing.md) [place](index.md#nowhere) [file](../missing.txt)\n\n"
        "<!-- scenario no-such-story -->\n"
    )
    config = (ROOT / "properdocs.yml").read_text("utf-8").partition("nav:\n  - ")[0]
    hook = ROOT / "src" / "epoka" / "reference" / "site.py"
    (tmp_path / "properdocs.yml").write_text(config.replace("src/epoka/reference/site.py", str(hook)))
    done = build(tmp_path / "properdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    for wrong in ("missing.md", "#nowhere", "../missing.txt", "no-such-story"):
        assert any("WARNING" in line and wrong in line for line in done.stderr.splitlines()), done.stderr
