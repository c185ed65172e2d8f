"""Transactions: what a transactional id is doing, and what may happen to it next."""
