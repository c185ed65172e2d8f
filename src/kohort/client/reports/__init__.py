"""Metrics of a client by the names of Kafka's Java clients."""
