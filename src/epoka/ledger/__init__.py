"""The ledger: what was decided and what changed, kept where people, the dashboard and Spark can read it.

The event schema is `model/ledger.py`. This room writes events down and reads them back; it decides nothing.
"""
