"""Commands about brokers, topics, users, ACLs, quotas and transactions."""
