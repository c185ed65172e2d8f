"""The generations of Kafka's consumer groups side by side: the same changes and faults, measured from outside."""
