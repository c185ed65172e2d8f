"""Exactly-once check: each input record has its effect in exactly one committed transaction."""

from __future__ import annotations

from collections.abc import Iterator

from kohort_lab.history.facts import GroupFacts, HistoryFacts
from kohort_lab.history.logs import WITHIN, SeenLog

Effects = dict[tuple[str, int], SeenLog]
"""Effect value of each input offset, by output topic and input partition."""


def check_effects(facts: HistoryFacts) -> None:
    """Check inputs with two effects, and inputs without effect in groups that declare an effects topic."""
    certain: Effects = {}
    possible: Effects = {}
    values = facts.values
    for value, place in zip(facts.of_value, facts.of_place, strict=True):
        transaction = facts.transaction_of(value)
        if transaction is None or transaction.cannot_be_committed:
            continue
        log, offset = facts.logs.at(place)
        topic = facts.logs.all[values.topic_partition[value]].topic
        _note(possible, topic, log, offset, value)
        if transaction.took_effect:
            first = _note(certain, topic, log, offset, value)
            if values.transaction[first] != values.transaction[value]:
                _twice(facts, first, value, f"{offset} of {log}")
    for group in facts.groups.values():
        if group.effects is not None:
            _check_none_missing(facts, group, group.effects, possible)


def _note(effects: Effects, topic: str, log: SeenLog, offset: int, value: int) -> int:
    """Record an effect and return the first effect of this input."""
    key = (topic, log.number)
    if key not in effects:
        effects[key] = SeenLog(topic, log.partition, log.number)
    page = effects[key].page(offset)
    if page.value[offset & WITHIN] < 0:
        page.value[offset & WITHIN] = value
    return page.value[offset & WITHIN]


def _twice(facts: HistoryFacts, first: int, second: int, where: str) -> None:
    values = facts.values
    one, other = facts.transaction_of(first), facts.transaction_of(second)
    assert one is not None
    assert other is not None
    why = f"the input at {where} has its effect in transactions {one.name!r} and {other.name!r}"
    lines = (values.line[first], one.end_line or one.read_line, values.line[second], other.end_line or other.read_line)
    facts.anomalies.add("effect-twice", why, *lines)


def _check_none_missing(facts: HistoryFacts, group: GroupFacts, topic: str, possible: Effects) -> None:
    for log, committed, line in _committed(facts, group):
        effects = possible.get((topic, log))
        if effects is None or not effects.pages:
            continue
        first = (
            min(offset for offset, _, _ in effects.known_values(0, committed))
            if _any(effects, committed)
            else committed
        )
        for offset, value, page in facts.logs.all[log].known_values(first, committed):
            transaction = facts.transaction_of(value)
            is_visible = page.line[offset & WITHIN] > 0 and (transaction is None or transaction.took_effect)
            if not is_visible or facts.may_be_removed(log, offset):
                continue
            if effects.page(offset).value[offset & WITHIN] < 0:
                where = facts.logs.all[log]
                why = f"{committed} of {where} is committed, and the input at {offset} has no effect in {topic}"
                facts.anomalies.add("effect-missing", why, page.line[offset & WITHIN], line)


def _any(effects: SeenLog, committed: int) -> bool:
    return next(effects.known_values(0, committed), None) is not None


def _committed(facts: HistoryFacts, group: GroupFacts) -> Iterator[tuple[int, int, int]]:
    """Yield partition, highest offset and line of the commits in transactions."""
    for log, entries in group.commits.items():
        best = (0, 0)
        for entry in entries:
            if entry.transaction >= 0 and facts.transactions[entry.transaction].took_effect:
                best = max(best, (entry.offset, entry.line))
        if best[0]:
            yield log, *best
