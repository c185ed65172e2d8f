"""What clients have counted, told by the names that users know: Kafka's metrics, and librdkafka's statistics."""
