"""The parent of Spark's Python workers: imports what they all need once and spares them the garbage
collector.

Every worker is a fork of this process, and Spark collects garbage after every task. What is frozen here is
neither imported nor looked at again. Workers that only plan a query get none of it: they would wait for
nothing.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any


def prepare() -> None:
    import pyarrow  # noqa: F401

    import epoka.client.fetching
    import epoka.spark.arrow  # noqa: F401
    from epoka.client.columns import compiled

    compiled()
    gc.collect()
    gc.freeze()


def without_complaint(worker: Callable[..., int]) -> Callable[..., int]:
    """A worker that ends when Spark has left it, as Spark does with workers it needs no more, and no more."""

    def work(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            return 1

    return work


if __name__ == "__main__":
    from pyspark import daemon

    if "pyspark.worker" in sys.argv:
        prepare()
    daemon.worker = without_complaint(daemon.worker)
    daemon.manager()
