"""Histories of what clients of Kafka saw, and a checker that knows nothing of the code that made them.

Nothing here imports the rest of the package, or anything but Python's standard library: what is wrong with a broker or
a client cannot hide in what judges it. The format is in docs/history-format.md, the command ``kohort check-history``.
"""
