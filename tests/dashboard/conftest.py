"""Without the extras only what needs no server is tested, and pytest says what was left out."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

SERVED = ("test_dashboard.py", "test_gate.py", "test_zookeeper.py")
MISSING = [name for name in ("starlette", "uvicorn", "httpx") if find_spec(name) is None]
collect_ignore = list(SERVED) if MISSING else []


def pytest_report_header(config: pytest.Config) -> list[str]:
    return (
        [f"dashboard: {', '.join(SERVED)} left out, not installed: {', '.join(MISSING)}"] if MISSING else []
    )
