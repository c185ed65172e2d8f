"""Commands that ``kohort`` finds by its entry point group ``kohort.commands``."""
