"""The audit: a cluster's ledger as tables.

bronze   every entry as it was written, with where it comes from; nothing is ever left out
silver   typed, one row an event, each event once; partitions whole in one file and in order
gold     `tables`: generations, decisions, leadership, ISR, availability, latencies, acknowledged records;
         `invariants`: what must never happen, each violation with the events that prove it

`run` makes all of them, from files or from a live topic. Every gold table is one pure function of silver.
"""
