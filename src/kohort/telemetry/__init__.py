"""Metrics that clients push to a broker (KIP-714): what they are asked for, which client is which, what they said."""
