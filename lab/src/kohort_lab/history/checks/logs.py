"""Log checks: each acknowledged record is in the log once, in send order."""

from __future__ import annotations

from kohort_lab.history.facts import HistoryFacts
from kohort_lab.history.logs import WITHIN, LogPage, PassedStretch
from kohort_lab.history.values import ACKNOWLEDGED, FAILED, UNSENT


def check_logs(facts: HistoryFacts) -> None:
    """Check for lost, duplicate, reordered and unexpected records."""
    for gap in facts.logs.gaps:
        for offset, value, page in facts.logs.all[gap.log].known_values(gap.start, gap.end):
            if not facts.may_be_removed(gap.log, offset):
                _check_passed(facts, gap, offset, value, page)
    _check_ends(facts)
    _check_second_places(facts)
    _check_results(facts)
    _check_order(facts)


def _check_passed(facts: HistoryFacts, gap: PassedStretch, offset: int, value: int, page: LogPage) -> None:
    """Check a known record that a reader passed without reading it."""
    values = facts.values
    log, within = facts.logs.all[gap.log], offset & WITHIN
    is_here = values.acknowledged[value] == log.place(offset)
    read_line = page.committed_line[within] if gap.committed_only else page.line[within]
    transaction = facts.transaction_of(value)
    spelled = values.spelled(value)
    if transaction is None:
        line = values.line[value] if is_here else read_line
        if line:
            source = "acknowledged" if is_here else "read by another client"
            why = f"{spelled!r} at {offset} of {log}, {source}, is skipped by a reader"
            facts.anomalies.add("lost-record", why, line, gap.line)
        return
    if transaction.cannot_be_committed and gap.committed_only:
        return
    line = values.line[value] if is_here else read_line
    if not line:
        return
    if gap.committed_only and transaction.read_line:
        why = f"a read_committed reader skips {spelled!r} at {offset} of {log}, of transaction "
        why += f"{transaction.name!r}; another record of the transaction was read"
        facts.anomalies.add("partial-transaction", why, line, transaction.read_line, transaction.end_line, gap.line)
    elif transaction.committed or not gap.committed_only:
        why = f"{spelled!r} at {offset} of {log}, of transaction {transaction.name!r}, is skipped by a reader"
        facts.anomalies.add("lost-record", why, line, transaction.end_line, gap.line)


def _check_ends(facts: HistoryFacts) -> None:
    """Check for acknowledged records beyond a later log end offset."""
    values = facts.values
    lowest: dict[int, list[tuple[int, int, int]]] = {}
    for log in facts.logs.all:
        least = None
        for at, end, line in sorted(log.ends, reverse=True):  # backwards, for the lowest end offset from each time on
            least = (end, line) if least is None or end < least[0] else least
            lowest.setdefault(log.number, []).append((at, *least))
    if not lowest:
        return
    for value in range(values.count):
        place = values.acknowledged[value]
        if place < 0 or (ends := lowest.get(values.topic_partition[value])) is None:
            continue
        log, offset = facts.logs.at(place)
        later = [(end, line) for at, end, line in ends if at > values.done[value]]
        if later and offset >= later[-1][0]:
            why = (
                f"{values.spelled(value)!r} was acknowledged at {offset} of {log}; later the log ends at {later[-1][0]}"
            )
            facts.anomalies.add("lost-record", why, values.line[value], later[-1][1])


def _check_second_places(facts: HistoryFacts) -> None:
    """Check for values of idempotent producers at two offsets."""
    values = facts.values
    for (value, place), line in facts.second_places.items():
        client = values.client[value]
        if client < 0 or not facts.clients[client].idempotent:
            continue
        log, first = facts.logs.at(values.place[value])
        page = log.page(first)
        is_read = page.value[first & WITHIN] == value and page.line[first & WITHIN]
        also, second = facts.logs.at(place)
        other = also.page(second)
        both = is_read and other.value[second & WITHIN] == value and other.line[second & WITHIN]
        check = "duplicate-record" if both else "value-at-two-offsets"
        first_place, second_place = facts.logs.describe(values.place[value]), facts.logs.describe(place)
        why = f"{values.spelled(value)!r} is at {first_place} and at {second_place}"
        facts.anomalies.add(check, why, values.line[value], page.line[first & WITHIN], line)


def _check_results(facts: HistoryFacts) -> None:
    """Check for records that were read although their send failed or never happened."""
    values = facts.values
    for value in range(values.count):
        place, result = values.place[value], values.result[value]
        if place < 0 or result not in (FAILED, UNSENT):
            continue
        log, offset = facts.logs.at(place)
        line = log.page(offset).line[offset & WITHIN]
        if result == FAILED:
            why = f"{values.spelled(value)!r}, whose send failed, is at {offset} of {log}"
            facts.anomalies.add("failed-but-written", why, values.line[value], line)
        elif log.topic in facts.logs.whole:
            why = f"{values.spelled(value)!r} at {offset} of {log} was never sent"
            facts.anomalies.add("phantom-read", why, line)


def _check_order(facts: HistoryFacts) -> None:
    """Check the log order of each idempotent producer's records against the send order."""
    values = facts.values
    sent: dict[tuple[int, int], list[int]] = {}
    for value in range(values.count):
        if values.result[value] == ACKNOWLEDGED and values.place[value] >= 0:
            client = values.client[value]
            if facts.clients[client].idempotent:
                sent.setdefault((client, values.topic_partition[value]), []).append(value)
    for in_partition in sent.values():
        in_partition.sort(key=lambda value: (values.at[value], values.place[value]))
        last = -1
        for value in in_partition:
            if last >= 0 and values.place[value] < values.place[last] and (value, values.place[value]) != (last, -1):
                one, other = values.spelled(last), values.spelled(value)
                place = facts.logs.describe(values.place[value])
                why = f"{other!r} was sent after {one!r} and precedes it in the log, at {place}"
                facts.anomalies.add("reordered-records", why, values.line[last], values.line[value])
            last = value
