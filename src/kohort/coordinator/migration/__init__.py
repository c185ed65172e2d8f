"""Groups that go from one protocol to the other while they run, and groups of both (KIP-848)."""
