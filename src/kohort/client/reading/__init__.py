"""Consumer: subscriptions, positions, fetches."""
