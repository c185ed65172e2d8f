"""Isolation check: read_committed readers see only committed records, and none before the commit request."""

from __future__ import annotations

from kohort_lab.history.facts import HistoryFacts
from kohort_lab.history.logs import WITHIN


def note_committed_reads(facts: HistoryFacts) -> None:
    """Set each transaction's ``read_line``: a read_committed read of one of its records."""
    values = facts.values
    for value in range(values.count):
        transaction = facts.transaction_of(value)
        if transaction is None or transaction.read_line or values.place[value] < 0:
            continue
        log, offset = facts.logs.at(values.place[value])
        page = log.page(offset)
        if page.value[offset & WITHIN] == value and page.committed_line[offset & WITHIN]:
            transaction.read_line = page.committed_line[offset & WITHIN]


def check_visibility(facts: HistoryFacts) -> None:
    """Check records that read_committed readers must not see.

    Times of readers and producers are compared only if all clients share a clock.
    """
    values = facts.values
    clocks = {client.clock for client in facts.clients if client.last_at >= 0}
    for value in range(values.count):
        transaction = facts.transaction_of(value)
        if transaction is None or not transaction.read_line or values.place[value] < 0:
            continue
        log, offset = facts.logs.at(values.place[value])
        page, within = log.page(offset), offset & WITHIN
        if page.value[within] != value or not page.committed_line[within]:
            continue
        lines = (values.line[value], transaction.end_line, page.committed_line[within])
        what = f"{values.spelled(value)!r} at {offset} of {log}, of transaction {transaction.name!r}"
        if transaction.cannot_be_committed:
            how = "without commit request" if not transaction.is_requested else "aborted"
            facts.anomalies.add("aborted-read", f"{what}, {how}, is read as committed", *lines)
        elif len(clocks) == 1 and page.committed_done[within] < transaction.requested_at:
            facts.anomalies.add("uncommitted-read", f"{what}, is read as committed before its commit request", *lines)
