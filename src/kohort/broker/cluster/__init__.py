"""Several nodes over one storage: partition leaders, and messages between the nodes."""
