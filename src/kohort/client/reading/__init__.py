"""Consumer logic: subscriptions, positions, fetches."""
