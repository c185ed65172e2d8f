"""Histories of Kafka clients, and their checker: the command ``kohort check-history``.

The package imports the standard library alone. A fault of a broker or a client cannot hide in code that it shares with
the checker. The format is in docs/lab/history-format.md.
"""
