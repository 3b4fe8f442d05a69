"""Spark's own Kafka connector, fetched from Maven Central once and kept under `build/`.

The version is that of PySpark, or where it is not there yet the newest release before it.
"""

from __future__ import annotations

import hashlib
import re
import urllib.error
import urllib.request
from pathlib import Path

CENTRAL = "https://repo1.maven.org/maven2"
CACHE = Path(__file__).parents[2] / "build" / "maven"
SCALA = "2.13"
CONNECTOR = f"spark-sql-kafka-0-10_{SCALA}"
TIMEOUT_S = 20


class Unreachable(Exception):
    """Maven Central does not answer; the text says what it was asked for."""


def connector_jars(spark_version: str) -> list[Path]:
    """The connector and what it needs beyond Spark's own jars."""
    version, jar = _newest("org.apache.spark", CONNECTOR, spark_version)
    pom = _get(_place("org.apache.spark", CONNECTOR, version, "pom")).read_text()
    jars = [jar, _newest("org.apache.spark", f"spark-token-provider-kafka-0-10_{SCALA}", version)[1]]
    for group, name in (("org.apache.kafka", "kafka-clients"), ("org.apache.commons", "commons-pool2")):
        told = re.search(rf"<artifactId>{name}</artifactId>\s*<version>([^<]+)</version>", pom)
        if told is None:
            raise Unreachable(f"the pom of {CONNECTOR} {version} does not name {name}")
        jars.append(_newest(group, name, told.group(1))[1])
    return jars


def _newest(group: str, name: str, wanted: str) -> tuple[str, Path]:
    """The jar of this version, or of the newest release before it: mirrors have not all of them."""
    try:
        return wanted, _get(_place(group, name, wanted, "jar"))
    except Unreachable:
        listed = _fetch(f"{CENTRAL}/{group.replace('.', '/')}/{name}/maven-metadata.xml").decode()
    released = {_numbers(each): each for each in re.findall(r"<version>([\d.]+)</version>", listed)}
    version = released[max(each for each in released if each < _numbers(wanted))]
    return version, _get(_place(group, name, version, "jar"))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _place(group: str, name: str, version: str, kind: str) -> tuple[str, Path]:
    file = f"{name}-{version}.{kind}"
    return f"{CENTRAL}/{group.replace('.', '/')}/{name}/{version}/{file}", CACHE / file


def _get(place: tuple[str, Path]) -> Path:
    address, path = place
    if not path.exists():
        content = _fetch(address)
        expected = _fetch(f"{address}.sha1").decode().split()[0]
        if hashlib.sha1(content, usedforsecurity=False).hexdigest() != expected:
            raise Unreachable(f"{address} came damaged")
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(f".{id(content)}")
        whole.write_bytes(content)
        whole.replace(path)
    return path


def _fetch(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:
            content: bytes = answer.read()
            return content
    except (OSError, urllib.error.URLError) as error:
        raise Unreachable(f"{address}: {error}") from error
