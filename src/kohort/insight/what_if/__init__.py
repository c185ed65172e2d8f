"""What a group would do if something were changed: the real assignors, asked about a snapshot. Nothing is executed."""
