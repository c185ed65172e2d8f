"""Transactional ids: states, transitions and records."""
