"""The data pipeline on Spark: topics as tables and streams, the audit of a cluster's history.

    spark = epoka.spark.build_session("local")
    spark.read.format("epoka").option("kafka.bootstrap.servers", ...).option("subscribe", "orders").load()

Spark finds the format by itself through the package `pyspark_epoka`; `register` is for sessions that do not.
Nothing here is imported before it is needed: the planner's worker processes import this package for every query.
"""
