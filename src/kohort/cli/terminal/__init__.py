"""Options, exit codes and output that all commands share."""
