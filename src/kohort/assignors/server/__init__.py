"""Server-side assignors (KIP-848): pure functions with the same results as Apache Kafka's assignors."""
