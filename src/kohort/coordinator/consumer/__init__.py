"""Consumer group protocol (KIP-848): the coordinator assigns partitions and reconciles members."""
