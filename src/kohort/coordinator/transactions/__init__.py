"""Transactions: what a transactional id is about, and what may happen to it next."""
