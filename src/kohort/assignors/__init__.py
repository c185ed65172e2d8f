"""Client-side and server-side assignors (partition assignment strategies): pure functions."""
