"""What the journal tells: causes with their evidence."""
