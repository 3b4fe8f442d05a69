"""The audit's tables: a streaming table of the ledger as it is, and a materialised view for everything else.

Gold is made by the functions of the plain audit. Silver and violations are made by SQL: a pipeline allows no
Python over rows, and no look at them while it is declared.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from epoka.spark.audit import invariants, ledger, tables

spark = SparkSession.active()


@dp.table
def bronze() -> DataFrame:
    bootstrap = os.environ.get("EPOKA_BOOTSTRAP", "localhost:9092")
    topic = (
        spark.readStream.format("epoka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", ledger.TOPIC)
        .option("startingOffsets", "earliest")
        .load()
    )
    return ledger.bronze_from_topic(topic, "live")


@dp.materialized_view
def silver() -> DataFrame:
    return ledger.silver_by_sql(spark.read.table("bronze"))


def gold(name: str) -> None:
    @dp.materialized_view(name=name)
    def view() -> DataFrame:
        return tables.gold(spark.read.table("silver"))[name]


for name in tables.NAMES:
    gold(name)


@dp.materialized_view
def violations() -> DataFrame:
    return spark.sql(invariants.reference_query("silver"))
