"""The laboratory of kohort: simulator, checker of histories, machines without sockets, and their commands."""
