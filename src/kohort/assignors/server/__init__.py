"""The assignors that a coordinator runs itself (KIP-848): pure functions, with the results of Apache Kafka's."""
