"""Every record that was acknowledged is where readers go past it, once, and in the order in which it was sent."""

from __future__ import annotations

from kohort_lab.history.facts import HistoryFacts
from kohort_lab.history.logs import WITHIN, LogPage, PassedStretch
from kohort_lab.history.values import ACKNOWLEDGED, FAILED, UNSENT


def check_logs(facts: HistoryFacts) -> None:
    """Note what is lost, twice, out of order, or not of this world."""
    for gap in facts.logs.gaps:
        for offset, value, page in facts.logs.all[gap.log].known(gap.start, gap.end):
            if not facts.is_gone(gap.log, offset):
                _check_passed(facts, gap, offset, value, page)
    _check_ends(facts)
    _check_second_places(facts)
    _check_results(facts)
    _check_order(facts)


def _check_passed(facts: HistoryFacts, gap: PassedStretch, offset: int, value: int, page: LogPage) -> None:
    """Look at a record that a reader went past without it."""
    values = facts.values
    log, within = facts.logs.all[gap.log], offset & WITHIN
    is_here = values.acknowledged[value] == log.place(offset)
    read_line = page.committed_line[within] if gap.committed_only else page.line[within]
    transaction = facts.transaction_of(value)
    spelled = values.spelled(value)
    if transaction is None:
        line = values.line[value] if is_here else read_line
        if line:
            told = "acknowledged" if is_here else "read by another"
            why = f"{spelled!r} at {offset} of {log}, {told}, is passed over by a reader"
            facts.anomalies.add("lost-record", why, line, gap.line)
        return
    if transaction.cannot_be_committed and gap.committed_only:
        return
    line = values.line[value] if is_here else read_line
    if not line:
        return
    if gap.committed_only and transaction.seen_line:
        why = f"a reader of committed records passes over {spelled!r} at {offset} of {log}, of transaction "
        why += f"{transaction.name!r}, of which another record was read"
        facts.anomalies.add("partial-transaction", why, line, transaction.seen_line, transaction.end_line, gap.line)
    elif transaction.committed or not gap.committed_only:
        why = f"{spelled!r} at {offset} of {log}, of transaction {transaction.name!r}, is passed over by a reader"
        facts.anomalies.add("lost-record", why, line, transaction.end_line, gap.line)


def _check_ends(facts: HistoryFacts) -> None:
    """Look for records that were acknowledged before the log's end was told to lie below them."""
    values = facts.values
    lowest: dict[int, list[tuple[int, int, int]]] = {}
    for log in facts.logs.all:
        least = None
        for at, end, line in sorted(log.ends, reverse=True):  # from the last one back: the least end from then on
            least = (end, line) if least is None or end < least[0] else least
            lowest.setdefault(log.number, []).append((at, *least))
    if not lowest:
        return
    for value in range(values.count):
        place = values.acknowledged[value]
        if place < 0 or (asked := lowest.get(values.topic_partition[value])) is None:
            continue
        log, offset = facts.logs.at(place)
        later = [(end, line) for at, end, line in asked if at > values.done[value]]
        if later and offset >= later[-1][0]:
            why = f"{values.spelled(value)!r} was acknowledged at {offset} of {log}, which then ends at {later[-1][0]}"
            facts.anomalies.add("lost-record", why, values.line[value], later[-1][1])


def _check_second_places(facts: HistoryFacts) -> None:
    """Look at values that were said to lie at two places, where their producer promised one."""
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
        why = f"{values.spelled(value)!r} is at {facts.logs.told(values.place[value])} and at {facts.logs.told(place)}"
        facts.anomalies.add(check, why, values.line[value], page.line[first & WITHIN], line)


def _check_results(facts: HistoryFacts) -> None:
    """Look for records that were read and must not be there."""
    values = facts.values
    for value in range(values.count):
        place, result = values.place[value], values.result[value]
        if place < 0 or result not in (FAILED, UNSENT):
            continue
        log, offset = facts.logs.at(place)
        line = log.page(offset).line[offset & WITHIN]
        if result == FAILED:
            why = f"{values.spelled(value)!r}, which was not to be written, is at {offset} of {log}"
            facts.anomalies.add("failed-but-written", why, values.line[value], line)
        elif log.topic in facts.logs.whole:
            why = f"{values.spelled(value)!r} at {offset} of {log} was never sent"
            facts.anomalies.add("phantom-read", why, line)


def _check_order(facts: HistoryFacts) -> None:
    """Look for records of an idempotent producer that lie in another order than it sent them."""
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
                why = f"{other!r} was sent after {one!r} and lies before it, at {facts.logs.told(values.place[value])}"
                facts.anomalies.add("reordered-records", why, values.line[last], values.line[value])
            last = value
