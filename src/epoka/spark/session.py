"""One way to a Spark session, with the settings that measurements chose.

    spark = build_session("local")            # this machine, all cores
    spark = build_session("cluster", master="spark://host:7077")

Decides what every job of the pipeline relies on: UTC, this very Python in the workers, Unix sockets to them,
and on local disks the checkpoint files that cost no processes. A session that runs already is never changed:
Spark would take some of the settings and drop others in silence.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from epoka.spark.java import Java, NoJava, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROFILES = ("test", "local", "cluster")
LONGEST_SOCKET_FOLDER = 60
"""A socket's path may be some hundred bytes long, of which Spark's own names take forty."""
_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class BadSession(Exception):
    """No such session can be built; the text says why."""


class _Profile(msgspec.Struct, frozen=True):
    master: str
    driver_memory: str
    shuffle_partitions: int
    short: bool
    """Made for short jobs: the quick compiler only."""
    local_disks: bool


def build_session(
    profile: str = "local",
    *,
    master: str | None = None,
    name: str = "epoka",
    conf: Mapping[str, Any] | None = None,
    archive: bool = True,
) -> SparkSession:
    """A session of one of the PROFILES; `conf` has the last word. NoJava when nothing can run it."""
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise BadSession("PySpark is not installed: `pip install 'epoka[spark]'`") from error
    chosen = _profile(profile, master)
    running = SparkSession.getActiveSession()
    if running is not None:
        raise BadSession(
            f"a session is running already ({running.sparkContext.appName}); stop it or use it as it is"
        )
    cache = cache_folder()
    java = find_java(cache)
    os.environ["JAVA_HOME"] = str(java.home)
    settings = settings_for(chosen, java, cache, pyspark.__version__, archive=archive)
    settings.update({key: str(value) for key, value in (conf or {}).items()})
    os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    if settings["spark.python.unix.domain.socket.enabled"] == "true":
        os.environ["PYSPARK_UDS_MODE"] = "true"
    if chosen.master.startswith("local["):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(chosen.master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _profile(name: str, master: str | None) -> _Profile:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if name == "test":
        return _Profile(master or "local[2]", "1g", 2, short=True, local_disks=True)
    if name == "local":
        return _Profile(master or "local[*]", "2g", max(2, 2 * cores), short=False, local_disks=True)
    if name == "cluster":
        if master is None:
            raise BadSession("the cluster profile needs a master such as spark://host:7077")
        return _Profile(master, "2g", max(8, 4 * cores), short=False, local_disks=False)
    raise BadSession(f"a session is {', '.join(PROFILES)}, not {name!r}")


def settings_for(
    profile: _Profile, java: Java, cache: Path, spark_version: str, *, archive: bool
) -> dict[str, str]:
    settings = {
        "spark.driver.memory": profile.driver_memory,
        "spark.log.level": "ERROR" if profile.short else "WARN",
        "spark.pyspark.python": sys.executable,
        "spark.python.daemon.module": "epoka.spark.daemon",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": _socket_folder(),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.files.maxPartitionBytes": "256m",
        # Spark's own default is a type that Delta and most other readers have given up.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(profile.shuffle_partitions),
        # Costs one planner process a query, and only for sources that ask for it.
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.ui.showConsoleProgress": "false",
    }
    if profile.short:
        settings["spark.ui.enabled"] = "false"
    if profile.local_disks:
        # Renames are atomic on a local disk; on other file systems Spark's own choice stands.
        settings["spark.sql.streaming.checkpointFileManagerClass"] = _CHECKPOINTS
    options = ["-XX:TieredStopAtLevel=1"] if profile.short else []
    if archive and profile.local_disks:
        options += archive_options(java, cache, spark_version)
    if options:
        settings["spark.driver.extraJavaOptions"] = " ".join(options)
    return settings


def archive_options(java: Java, cache: Path, spark_version: str) -> list[str]:
    """Java's options to use the archive of loaded classes, or to write it when this session ends.

    A session that begins while nobody has an archive writes one at its end, under a name of its own; the next
    session adopts it. One that was cut off in the middle has no header and is thrown away.
    """
    if any(character.isspace() for character in str(cache)):
        return []
    archive = cache / f"classes-java{java.build}-spark{spark_version}.jsa"
    if not archive.exists():
        for written in sorted(cache.glob(f"{archive.name}.*")):
            if _age_s(written) < 2:
                continue
            # Another session may adopt it at the same time.
            with contextlib.suppress(FileNotFoundError):
                with written.open("rb") as file:
                    whole = any(file.read(4))
                if whole:
                    written.replace(archive)
                    break
                if _age_s(written) > 600:
                    written.unlink(missing_ok=True)
    if archive.exists():
        return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    return [f"-XX:ArchiveClassesAtExit={archive}.{os.getpid()}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def cache_folder() -> Path:
    """Where things are kept that are made once for an installation."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "epoka"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"epoka-cache-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _socket_folder() -> str:
    folder = tempfile.gettempdir()
    return folder if len(folder) <= LONGEST_SOCKET_FOLDER else "/tmp"


__all__ = ["PROFILES", "BadSession", "NoJava", "build_session", "cache_folder"]
