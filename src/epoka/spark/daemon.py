"""The parent of Spark's Python workers: imports what they all need once and spares them the garbage
collector.

Every worker is a fork of this process, and Spark collects garbage after every task. What is frozen here is
neither imported nor looked at again. Workers that only plan a query get none of it: they would wait for
nothing.
"""

from __future__ import annotations

import gc
import sys


def prepare() -> None:
    import pyarrow  # noqa: F401

    import epoka.client.fetching
    import epoka.spark.arrow  # noqa: F401
    from epoka.client.columns import compiled

    compiled()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from pyspark.daemon import manager

    if "pyspark.worker" in sys.argv:
        prepare()
    manager()
