"""Epoka: a Kafka-compatible log cluster that no stale broker can fool."""
