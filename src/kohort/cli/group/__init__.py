"""Commands about one consumer group."""
