"""Comparison of Kafka's generations of consumer groups under the same changes and faults."""
