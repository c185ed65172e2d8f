"""Commands about brokers, topics, users, rights and transactions."""
