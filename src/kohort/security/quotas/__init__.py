"""Quotas: who may use how much of a broker, how it is measured, and for how long who uses more is held up (KIP-13)."""
