"""Commands that the entry point group ``kohort.commands`` adds to ``kohort``."""
