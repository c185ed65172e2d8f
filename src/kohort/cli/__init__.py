"""The command line ``kohort``."""
