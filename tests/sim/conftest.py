"""What tests of the checkers begin with."""

from __future__ import annotations

import pytest

from tests.sim.watched import Watched


@pytest.fixture
def watched() -> Watched:
    return Watched()
