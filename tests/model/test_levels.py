"""The names of the feature ladder."""

from __future__ import annotations

import pytest

from epoka.model.levels import FeatureLevel


@pytest.mark.parametrize("level", list(FeatureLevel))
def test_a_level_is_found_by_its_name_and_its_number(level: FeatureLevel) -> None:
    assert FeatureLevel.parse(str(level)) is level
    assert FeatureLevel.parse(level.label.upper()) is level
    assert FeatureLevel.parse(str(int(level))) is level


def test_names_are_written_with_dashes() -> None:
    assert [str(level) for level in FeatureLevel] == [
        "legacy",
        "generations",
        "heartbeats",
        "shared-updates",
        "eligible-isr",
        "fetch-epochs",
    ]


def test_an_unknown_level_is_named_with_the_choices() -> None:
    with pytest.raises(ValueError, match=r"'kraft'.*eligible-isr"):
        FeatureLevel.parse("kraft")
