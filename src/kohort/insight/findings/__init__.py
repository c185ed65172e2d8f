"""What was found out about groups, as values with one JSON schema: for commands, metrics and pages alike."""
