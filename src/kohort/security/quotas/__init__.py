"""Quotas: entities, limits, measured rates and throttle times (KIP-13)."""
