"""Whole clusters on one machine, in one process or many, with the faults that a test wants.

`epoka.Cluster` is the way in. Everything else here serves it.
"""
