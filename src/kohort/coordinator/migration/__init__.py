"""Conversion of groups between classic and consumer protocol; groups with members of both protocols (KIP-848)."""
