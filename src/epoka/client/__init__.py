"""A blocking Kafka client of our own, for any cluster: topics, offsets, record batches in and out.

It asks, and rides out what clusters do: leaders that change, brokers that are bounced. Records come back as
columns, decoded straight from record batches. `epoka.spark` and `epoka consume` stand on it. It must never
skip a batch in silence, and never read past the offsets it was asked for.
"""
