"""What the pytest fixture costs a test: 200 tests on one cluster of three brokers, each with its own topic.

Beside it the same tests without a cluster, in the same run: the difference is what a test pays for a topic
that every broker knows before it is used and that is gone afterwards.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean
from xml.etree import ElementTree

from benchmarks.figures import Figure, beside

TESTS = 200
AIM_MS = 15.0

_WITH = f"""
import pytest

@pytest.mark.parametrize("number", range({TESTS}))
def test_with(epoka_cluster, number):
    assert epoka_cluster.topic("orders", replication_factor=3)
"""

_WITHOUT = f"""
import pytest

@pytest.mark.parametrize("number", range({TESTS}))
def test_without(number):
    assert number >= 0
"""


def milliseconds_a_test(text: str) -> tuple[float, float]:
    """The first test, which pays for the cluster, and the mean of the others."""
    with tempfile.TemporaryDirectory(prefix="epoka-bench-") as folder:
        path, report = Path(folder) / "test_it.py", Path(folder) / "report.xml"
        path.write_text(text)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        subprocess.run([*command, str(path)], check=True, capture_output=True, cwd=folder)
        cases = ElementTree.parse(report).getroot().iter("testcase")
        first, *others = (float(case.get("time", "nan")) * 1000 for case in cases)
    return first, mean(others)


def run() -> list[Figure]:
    _, without = milliseconds_a_test(_WITHOUT)
    first, each = milliseconds_a_test(_WITH)
    return [
        beside("fixture, overhead a test", "ms", each - without, "aim", AIM_MS, at_most=1.0),
        beside("fixture, first test", "ms", first, "a test without a cluster", max(without, 0.01)),
    ]
