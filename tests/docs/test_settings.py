"""Settings in the pages are settings of the code, and the property files that they show can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epoka.model.topic_configs import TOPIC_KEYS
from epoka.node.config import load
from epoka.node.keys import BY_ANY_NAME
from tests.docs.shell import ROOT

KNOWN = {*BY_ANY_NAME, *TOPIC_KEYS}
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]


def unknown(text: str) -> set[str]:
    """Dotted names that are given a value and that nobody reads; those of clients begin with `kafka.`"""
    named = re.findall(r"(?<![\w.-])([a-z]+(?:\.[a-z]+)+)=", text)
    return {name for name in named if not name.startswith("kafka.")} - KNOWN


def test_every_setting_that_a_page_gives_a_value_is_one() -> None:
    assert unknown("`min.insync.replicas=2`, log.dirz=x") == {"log.dirz"}
    wrong = {page.name: names for page in PAGES if (names := unknown(page.read_text("utf-8")))}
    assert not wrong


@pytest.mark.parametrize("page", ["operations.md", "zookeeper.md"])
def test_the_property_files_of_a_page_can_be_read(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    (block,) = re.findall(r"^```\n(# controller.properties.*?)^```", text, re.S | re.M)
    half = block.splitlines()[0].index("# broker.properties")
    for name, cut in (("controller", slice(0, half)), ("broker", slice(half, None))):
        path = tmp_path / f"{name}.properties"
        path.write_text("\n".join(line[cut].strip() for line in block.splitlines()))
        config = load(path)
        assert config.is_controller is (name == "controller") and config.is_broker is (name == "broker")
