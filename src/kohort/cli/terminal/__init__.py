"""Options, errors and output that all commands share."""
