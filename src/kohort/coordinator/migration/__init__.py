"""Conversion of groups between both protocols, and groups with members of both (KIP-848)."""
