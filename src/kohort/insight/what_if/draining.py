"""Growth of the lag while partitions pause, and the time to drain it, in the best and in the worst case.

The slowest member determines the time to drain: it depends on the produce rate of its partitions and on the consume
rate of one member. Rates are options, or come from several snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kohort.insight.findings.what_if import DrainFinding
from kohort.insight.lag import GroupLag, LagOfPartition
from kohort.insight.what_if.scenario import PauseRange, WhatIfMember
from kohort.model import TopicPartition


class FlowRates(NamedTuple):
    """Rates in records per second: produce rate of each partition, lowest and highest consume rate of a member."""

    written: Mapping[TopicPartition, float]
    handled_least: float
    handled_most: float
    words: str


def flow_of(
    lag: GroupLag, counts: Mapping[str, int], in_per_s: float | None = None, drain_per_s: float | None = None
) -> FlowRates | None:
    """Return produce and consume rates of a group; None if neither options nor snapshots give them.

    ``in_per_s``: produce rate of all partitions together, split in proportion to the sampled rates, or evenly without
    samples. ``drain_per_s``: consume rate of a member; it can be sampled only from a member with a lag in every sample.
    """
    sampled = {
        one.partition: one.written_per_s for one in lag.partitions if one.counts and one.written_per_s is not None
    }
    written = _spread_over(sampled, counts, {t for t, n in counts.items() if n > lag.now.partition_counts.get(t, n)})
    if in_per_s is not None:
        places = [TopicPartition(topic, n) for topic, count in counts.items() for n in range(count)]
        total = sum(written.values())
        share = {tp: (written.get(tp, 0.0) / total if total else 1 / len(places)) for tp in places}
        written = {tp: in_per_s * part for tp, part in share.items()}
    busy = _busy_rates(lag)
    if not written or (drain_per_s is None and not busy):
        return None
    least, most = (min(busy), max(busy)) if drain_per_s is None else (drain_per_s, drain_per_s)
    if most <= 0:
        return None
    handled = f"{least:.3g}" if least == most else f"{least:.3g} to {most:.3g}"
    words = (
        f"producers write {sum(written.values()):.3g} records/s ({'sampled' if in_per_s is None else 'option'}), "
        f"and a member handles {handled} ({'sampled' if drain_per_s is None else 'option'})"
    )
    return FlowRates(written, least, most, words)


def _spread_over(
    sampled: Mapping[TopicPartition, float], counts: Mapping[str, int], grown: Iterable[str]
) -> dict[TopicPartition, float]:
    """Split a topic's produce rate evenly over all its partitions, for each topic that gets more partitions."""
    written = dict(sampled)
    for topic in grown:
        total = sum(rate for tp, rate in sampled.items() if tp.topic == topic)
        written |= {TopicPartition(topic, n): total / counts[topic] for n in range(counts[topic])}
    return written


def _busy_rates(lag: GroupLag) -> list[float]:
    by_owner: dict[str, list[LagOfPartition]] = {}
    for one in lag.partitions:
        if one.owner is not None and one.read_per_s is not None:
            by_owner.setdefault(one.owner.member_id, []).append(one)
    return [
        sum(one.read_per_s or 0.0 for one in own)
        for own in by_owner.values()
        if any(len(one.samples) > 1 and all(sample.lag for sample in one.samples) for one in own)
    ]


def drain_of(
    members: Iterable[WhatIfMember],
    lags: Mapping[TopicPartition, int | None],
    pauses: Mapping[TopicPartition, PauseRange],
    rates: FlowRates,
) -> DrainFinding:
    places = {*rates.written, *(tp for tp, lag in lags.items() if lag)}
    peaks = {tp: _peak(lags.get(tp) or 0, rates.written.get(tp, 0.0), pauses.get(tp, PauseRange())) for tp in places}
    soonest: list[float] = []
    latest: list[tuple[float, float, str]] = []
    owned = set()
    for member in members:
        owned |= set(member.owned)
        own = [tp for tp in member.owned if tp in peaks]
        inflow = sum(rates.written.get(tp, 0.0) for tp in own)
        least, most = sum(peaks[tp][0] for tp in own), sum(peaks[tp][1] for tp in own)
        soonest.append(_time_to_read(least, rates.handled_most - inflow))
        latest.append((_time_to_read(most, rates.handled_least - inflow), inflow, member.member_id))
    unread = [tp for tp in places if tp not in owned]
    never = float("inf")
    first, (last, _, slowest) = max(soonest, default=0.0), max(latest, default=(0.0, 0.0, ""))
    return DrainFinding(
        written_per_s=sum(rates.written.values()),
        handled_from_per_s=rates.handled_least,
        handled_to_per_s=rates.handled_most,
        peak_lag_from=round(sum(least for least, _ in peaks.values())),
        peak_lag_to=round(sum(most for _, most in peaks.values())),
        drained_from_s=None if unread or first == never else first,
        drained_to_s=None if unread or last == never else last,
        slowest=slowest or None,
        members_with_growing_lag=tuple(member_id for seconds, _, member_id in latest if seconds == never),
        unread=len(unread),
    )


def _peak(lag: int, written: float, pause: PauseRange) -> tuple[float, float]:
    return lag + written * pause.least / 1000, lag + written * pause.most / 1000


def _time_to_read(records: float, surplus: float) -> float:
    if surplus > 0:
        return records / surplus
    return 0.0 if not records and surplus == 0 else float("inf")
