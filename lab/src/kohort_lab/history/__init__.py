"""Checker of Kafka client histories: the command ``kohort check-history``.

The package imports only the standard library, so it shares no faulty code with a broker or a client. The file format
is in docs/lab/history-format.md.
"""
