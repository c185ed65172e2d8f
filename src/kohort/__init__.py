"""kohort: Kafka consumer groups, in Python, whole."""
