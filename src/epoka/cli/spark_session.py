"""What commands that run on Spark share: the session, and how a failure is told."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from epoka.cli.output import Failed


@contextlib.contextmanager
def session(master: str | None) -> Iterator[Any]:
    """A session for one command; under spark-submit, the one that it was started with."""
    spark = _started(master)
    try:
        yield spark
    except Failed:
        raise
    except Exception as error:
        raise Failed(_reason(error)) from error
    finally:
        spark.stop()


def _started(master: str | None) -> Any:
    from epoka.spark.session import BadSession, NoJava

    try:
        spark = _submitted() if master is None and "PYSPARK_GATEWAY_PORT" in os.environ else _built(master)
        spark.sparkContext.setLogLevel("ERROR")
    except (BadSession, NoJava) as error:
        raise Failed(str(error)) from error
    except Exception as error:
        # What Java says seldom names the master, which most often is the reason.
        at = "" if master is None else f" (its master is {master})"
        raise Failed(f"Spark did not start: {_reason(error)}{at}") from error
    return spark


def _submitted() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def _built(master: str | None) -> Any:
    from epoka.spark.session import build_session

    short = master is None or master.startswith("local")
    return build_session("local" if short else "cluster", master=master)


def _reason(error: Exception) -> str:
    """What a person can act on: the last line of a worker's traceback, or else what Java has thrown."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [
        line for line in lines if line.partition(":")[0].endswith(("BadOption", "DataLoss", "Unreachable"))
    ]
    # Py4J's own first line says only which call it was.
    thrown = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return (told or thrown or lines or [type(error).__name__])[0]


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """What is imported here is there only with the extra; Failed says so where it is missing."""
    try:
        yield
    except ImportError as error:
        raise Failed("the pipeline is not installed: `pip install 'epoka[spark]'`") from error
