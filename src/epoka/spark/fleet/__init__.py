"""Fleets: very many seeded simulations on Spark, one row a seed.

`source` is `format("epoka-sim")`, `options` what it can be asked, `seeds` what a task does with its seeds,
`run` the jobs: a campaign that can be stopped and resumed, the table of rules taken away, shrinking. Nothing
is imported before it is needed: Spark plans every query in a process of its own.
"""
