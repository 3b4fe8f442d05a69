"""A blocking Kafka client of our own, for any cluster: topics, offsets, record batches in and out.

It asks, and rides out what clusters do: leaders that change, brokers that are bounced. Records come back as
columns, decoded straight from record batches. Whoever asks a node from outside stands on it: the command
line, Spark, the dashboard, `epoka.Cluster`. It must never skip a batch in silence, and never read past the
offsets it was asked for.
"""
