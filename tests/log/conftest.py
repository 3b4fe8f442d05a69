"""Every test that asks for `store` runs against files and against memory: both must behave alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from epoka.log import FileStore, MemoryStore, Store


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "files":
        return FileStore(tmp_path / "log")
    return MemoryStore()
