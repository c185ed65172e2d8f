"""Server-side assignors (KIP-848): pure functions with Apache Kafka's results."""
