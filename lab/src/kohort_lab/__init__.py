"""Lab of kohort: simulator, checker of client histories, in-memory test machines and their commands."""
