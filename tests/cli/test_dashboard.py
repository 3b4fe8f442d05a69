"""`epoka up --dashboard` and `epoka dashboard`, from their ready line to their end."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.cli.commands import epoka, first_line, foreground, inside, is_one_line
from tests.waiting import wait_until

# Commands without an address find the cluster that runs, and there may be only one.
pytestmark = pytest.mark.xdist_group("epoka up")

URL = r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}"


def test_up_serves_a_dashboard_and_another_one_may_look_at_the_same_cluster(tmp_path: Path) -> None:
    httpx = pytest.importorskip("httpx", reason="the extra `browser` is not installed")
    pytest.importorskip("starlette", reason="the extra `dashboard` is not installed")

    def brokers(url: str) -> dict[str, str]:
        with httpx.Client(follow_redirects=True) as client:
            assert client.get(url).status_code == 200
            state = client.get(url.partition("?")[0] + "api/state").json()
        return {each: row["state"] for each, row in state["brokers"].items()}

    data = tmp_path / "cluster"
    with foreground(
        "up", "--brokers", "1", "--port", "0", "--data", str(data), "--dashboard", "0", "--allow-faults"
    ) as up:
        match = re.fullmatch(rf"ready bootstrap=\S+ dashboard=({URL})", first_line(up).rstrip())
        assert match
        assert brokers(match[1]) == {"1": "active"}
        with foreground("dashboard", "--data", str(data), "--json") as other:
            ready = json.loads(first_line(other))
            assert brokers(ready["dashboard"]) == {"1": "active"}
            up.send_signal(signal.SIGTERM)
            out, err = up.communicate(timeout=60)
            assert (up.returncode, out, err) == (0, "", "")
            # The one that looks from elsewhere stays, with what it has seen last.
            wait_until(lambda: brokers(ready["dashboard"]) == {"1": "down"}, "the end to be seen")
            other.send_signal(signal.SIGTERM)
            out, err = other.communicate(timeout=60)
            assert (other.returncode, out, err) == (0, "", "")


def test_a_port_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="the extra `dashboard` is not installed")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = epoka("up", "--brokers", "1", "--port", "0", "--dashboard", str(port))
    assert done.code == 1
    assert is_one_line(done)
    assert f"port {port} on 127.0.0.1 is in use" in done.err


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    done = inside("up", "--dashboard", "0")
    assert (done.code, done.out) == (2, "")
    assert is_one_line(done)
    assert "pip install 'epoka[dashboard]'" in done.err


def test_faults_without_a_dashboard_make_no_sense() -> None:
    done = inside("up", "--allow-faults")
    assert done.code == 2
    assert "--dashboard PORT" in done.err


def test_a_dashboard_of_nothing_is_refused(tmp_path: Path) -> None:
    done = inside("dashboard", "--data", str(tmp_path))
    assert (done.code, is_one_line(done)) == (1, True)
