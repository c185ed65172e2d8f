"""Ask brokers: connections, requests on their way and again after a failure, what the cluster is (metadata)."""
