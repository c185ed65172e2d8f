"""Readers of committed records see what is committed, nothing else, and not before it was asked for."""

from __future__ import annotations

from kohort_lab.history.facts import HistoryFacts
from kohort_lab.history.logs import WITHIN


def note_seen(facts: HistoryFacts) -> None:
    """Note of each transaction a line that read one of its records as committed."""
    values = facts.values
    for value in range(values.count):
        transaction = facts.transaction_of(value)
        if transaction is None or transaction.seen_line or values.place[value] < 0:
            continue
        log, offset = facts.logs.at(values.place[value])
        page = log.page(offset)
        if page.value[offset & WITHIN] == value and page.committed_line[offset & WITHIN]:
            transaction.seen_line = page.committed_line[offset & WITHIN]


def check_visibility(facts: HistoryFacts) -> None:
    """Note records that readers of committed records must not have seen. Times of readers and of producers are compared
    where all clients have one clock."""
    values = facts.values
    clocks = {client.clock for client in facts.clients if client.last_at >= 0}
    for value in range(values.count):
        transaction = facts.transaction_of(value)
        if transaction is None or not transaction.seen_line or values.place[value] < 0:
            continue
        log, offset = facts.logs.at(values.place[value])
        page, within = log.page(offset), offset & WITHIN
        if page.value[within] != value or not page.committed_line[within]:
            continue
        lines = (values.line[value], transaction.end_line, page.committed_line[within])
        what = f"{values.spelled(value)!r} at {offset} of {log}, of transaction {transaction.name!r}"
        if transaction.cannot_be_committed:
            how = "never asked to commit" if not transaction.asked else "aborted"
            facts.anomalies.add("aborted-read", f"{what}, {how}, is read as committed", *lines)
        elif len(clocks) == 1 and page.committed_done[within] < transaction.asked_at:
            facts.anomalies.add("uncommitted-read", f"{what}, is read as committed before it asked to be", *lines)
