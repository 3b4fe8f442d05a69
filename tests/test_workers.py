"""Tests that share what is dear to start are run by one worker. A group that is not kept together shows in
nothing but time."""

from __future__ import annotations

import os

import pytest


@pytest.mark.xdist_group("kept together")
def test_groups_are_known_to_whoever_hands_out_the_tests(request: pytest.FixtureRequest) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("there is one worker only")
    assert request.node.nodeid.endswith("@kept together")
