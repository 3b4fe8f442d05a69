"""The plugin as pytest finds it: the example project, reports of failures, wrong use."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from epoka.testing.plugin import _trace_name as trace_name
from tests.cli.commands import inside

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "lost_order"


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    base = folder / "base"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={base}", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110)


def write_tests(folder: Path, text: str) -> None:
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")


def test_the_example_project_passes_under_xdist(tmp_path: Path) -> None:
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    done = run_pytest(folder, "-n", "2", "-q", "-rx")
    assert done.returncode == 0, done.stdout
    assert "2 passed, 1 xfailed" in done.stdout
    assert "the only copy dies with the leader" in done.stdout


def test_a_failed_test_tells_what_its_cluster_did(tmp_path: Path) -> None:
    write_tests(
        tmp_path,
        "def test_it(epoka_cluster):\n"
        "    topic = epoka_cluster.topic('orders', replication_factor=3)\n"
        "    epoka_cluster.bounce(2, how='fast')\n"
        "    assert False\n",
    )
    done = run_pytest(tmp_path, "-q")
    assert done.returncode == 1
    assert "epoka ledger" in done.stdout
    assert re.search(r"topic orders-\w+ was created", done.stdout)
    assert "somebody killed broker 2 for a fast bounce" in done.stdout
    trace = re.search(r"the whole trace: (.+)", done.stdout)
    assert trace is not None, done.stdout
    told = inside("why", "broker", "2", "--file", trace[1])
    assert told.code == 0 and "somebody killed broker 2 for a fast bounce" in told.out


def test_a_test_that_fails_in_a_fixture_of_its_own_tells_it_too(tmp_path: Path) -> None:
    write_tests(
        tmp_path,
        "import pytest\n\n"
        "@pytest.fixture\ndef orders(epoka_cluster):\n"
        "    raise AssertionError(epoka_cluster.topic('orders'))\n\n"
        "@pytest.mark.epoka(brokers=1)\ndef test_it(orders):\n    pass\n",
    )
    done = run_pytest(tmp_path, "-q")
    assert done.returncode == 1
    assert "1 error" in done.stdout
    assert re.search(r"topic orders-\w+ was created", done.stdout)
    assert "the whole trace: " in done.stdout


def test_every_test_has_a_trace_of_its_own() -> None:
    names = [trace_name(f"test_it.py::test_trace[{each}]") for each in ("<", ">", "\u8ecc" * 150, "\udc80")]
    assert len(set(names)) == 4
    assert all(len(name.encode()) <= 255 and "/" not in name for name in names)
    assert names[0].startswith("test_it.py_test_trace_")
    assert "\u8ecc" * 40 in names[2]


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        ("brokers=0", "1 to 99 brokers"),
        ("level='magic'", "no feature level 'magic'"),
        ("config={'no.such.key': 1}", "no.such.key is not a known key"),
        ("colour='red'", "unexpected keyword argument 'colour'"),
        ("brokers='1'", "brokers cannot be '1', which is of type str"),
    ],
)
def test_a_cluster_that_cannot_be_is_one_line(tmp_path: Path, mark: str, text: str) -> None:
    write_tests(
        tmp_path, f"import pytest\n\n@pytest.mark.epoka({mark})\ndef test_it(epoka_cluster):\n    pass\n"
    )
    done = run_pytest(tmp_path, "-q", "--tb=line")
    assert done.returncode != 0
    assert text in done.stdout + done.stderr


def test_without_a_test_that_wants_one_no_cluster_is_imported(tmp_path: Path) -> None:
    write_tests(
        tmp_path,
        "import sys\n\nHEAVY = {'epoka.cluster', 'numpy', 'msgspec'}\n\n"
        "def test_it():\n    assert not HEAVY & set(sys.modules)\n",
    )
    done = run_pytest(tmp_path, "-q", "-p", "no:hypothesispytest")
    assert done.returncode == 0, done.stdout
    marked = run_pytest(tmp_path, "--markers")
    assert "@pytest.mark.epoka(brokers=3" in marked.stdout
