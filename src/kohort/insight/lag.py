"""Lag of a group, its members and its partitions, in records and in time; cause of the lag, and time to drain it.

Pure functions over snapshots of one group. The newest snapshot is the present state; two or more snapshots give rates.
An unknown value is None, never 0. Samples older than the last rewind or change of the owner are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot, PartitionSnapshot
from kohort.model import TopicPartition

Blame = Literal[
    "none",  # the partition has no lag
    "catching_up",  # the owner consumes faster than producers write
    "between_commits",  # the last commit is at most two default auto-commit intervals old
    "slow_member",  # the owner commits more slowly than producers write, or consumes its other partitions first
    "skew",  # the produce rate is far above that of the other partitions, and the owner is slow
    "stopped_member",  # the owner of the partition made no commit progress
    "open_transaction",  # read_committed consumers wait for the end of an open transaction
    "no_owner",
    "no_members",
    "never_committed",
    "not_subscribed",  # the group has committed offsets of the topic, but no member subscribes to it
    "beyond_the_end",  # the committed offset is beyond the log end: the topic was recreated or truncated
    "unknown",
]
Draining = Literal["empty", "steady", "draining", "growing", "unknown"]
"""Trend of a lag.

``empty``: no lag; ``steady``: commits progress, and the lag differs by less than the records between two commits;
``draining``: it becomes 0 after ``eta_ms``; ``growing``; ``unknown``.
"""

USUAL_COMMIT_MS: Final = 5_000
FRESH_MS: Final = 2 * USUAL_COMMIT_MS
"""Longest normal time between two commits: two default auto-commit intervals."""
JUDGED_AFTER_MS: Final = 3 * USUAL_COMMIT_MS
"""Shortest time without commit progress that counts as a stall: three default auto-commit intervals."""
SKEW_FACTOR: Final = 3
IN_ROUND: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
"""Group states during a rebalance, in which partitions without an owner are normal."""


class LagSample(NamedTuple):
    at_ms: int
    committed: int
    log_end: int
    last_stable: int | None
    log_start: int | None = None

    @property
    def lag(self) -> int:
        return max(self.log_end - max(self.committed, self.log_start or 0), 0)


class LagOfPartition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    at: PartitionSnapshot
    owner: MemberSnapshot | None = None
    records: int | None = None
    """Lag up to the high watermark in records, without the ``lost`` records."""
    stable_records: int | None = None
    """Lag up to the last stable offset in records: the lag of read_committed consumers."""
    time_ms: int | None = None
    """Age of the next record to consume, in ms; 0 without lag."""
    lead: int | None = None
    lost: int = 0
    """Number of records that retention deleted after the committed offset: the group cannot read them any more."""
    unmoved_ms: int = 0
    """Shortest possible time in ms without commit progress of the present owner."""
    samples: tuple[LagSample, ...] = ()
    written_per_s: float | None = None
    read_per_s: float | None = None
    eta_ms: int | None = None
    draining: Draining = "unknown"
    blame: Blame = "unknown"
    unknown: str | None = None

    @property
    def partition(self) -> TopicPartition:
        return self.at.partition

    @property
    def span_ms(self) -> int:
        return self.samples[-1].at_ms - self.samples[0].at_ms if self.samples else 0

    @property
    def start_moved(self) -> int:
        if not self.samples:
            return 0
        return max((self.samples[-1].log_start or 0) - (self.samples[0].log_start or 0), 0)

    @property
    def counts(self) -> bool:
        """True if the group consumes the partition; False if only an old committed offset remains."""
        return self.blame != "not_subscribed"


class LagSum(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Sum of the lags of all partitions of a member or of a group."""

    partitions: int = 0
    records: int | None = None
    stable_records: int | None = None
    time_ms: int | None = None
    time_complete: bool = True
    """False if some partitions have an unknown time lag, which may exceed ``time_ms``."""
    unknown: int = 0
    eta_ms: int | None = None
    draining: Draining = "unknown"


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    now: GroupSnapshot
    partitions: tuple[LagOfPartition, ...]
    total: LagSum
    members: dict[str, LagSum]
    shared: tuple[int, int]
    """Number of members that own partitions, and sum of the lags of their partitions in records."""
    blame: Blame
    blamed: MemberSnapshot | None = None
    highest: dict[TopicPartition, tuple[int, int]]
    """For each partition, its highest committed offset, and the time of the last snapshot with this offset."""
    grown: dict[TopicPartition, tuple[int, int]]
    """For each partition with unknown lag: number of records produced under the present owner, and in how many ms."""


def lag_of(snapshots: Sequence[GroupSnapshot], since_ms: int | None = None) -> GroupLag:
    """Return the lag of a group from its newest snapshot, with rates from the older snapshots.

    ``since_ms``: time of the group's last assignment, if known; earlier snapshots are ignored. Raises ValueError
    without snapshots.
    """
    if not snapshots:
        raise ValueError("cannot compute a lag: no snapshots of the group")
    ordered = sorted(snapshots, key=lambda snapshot: snapshot.at_ms)
    now = ordered[-1]
    window = [snapshot for snapshot in ordered if snapshot.group == now.group]
    history = _history_of(window)
    owners, topics = owners_of(now), subscribed(now)
    found = [
        _partition(p, now, owners.get(p.partition), _samples(history, p.partition, since_ms), topics)
        for p in now.partitions
    ]
    found = _behind_others(_skewed(found))
    counted = [lag for lag in found if lag.counts]
    by_owner: dict[str, list[LagOfPartition]] = {member.member_id: [] for member in now.members}
    for lag in counted:
        if lag.owner is not None:
            by_owner[lag.owner.member_id].append(lag)
    blame, blamed = _blame(counted)
    sums = {member_id: sum_of(lags) for member_id, lags in by_owner.items()}
    busy = [one for one in sums.values() if one.partitions]
    return GroupLag(
        now=now,
        partitions=tuple(found),
        total=sum_of(counted),
        members=sums,
        shared=(len(busy), sum(one.records or 0 for one in busy)),
        blame=blame,
        blamed=blamed,
        highest=_highest(window),
        grown={
            p.partition: _grown(history, p.partition)
            for p in now.partitions
            if p.committed is None or p.log_end is None
        },
    )


def owners_of(snapshot: GroupSnapshot) -> dict[TopicPartition, MemberSnapshot]:
    return {tp: member for member in snapshot.members for tp in member.assignment}


def subscribed(snapshot: GroupSnapshot) -> frozenset[str] | None:
    """Return the topics to which a group subscribes; None without members, or if a pattern is unresolved."""
    if not snapshot.members or any(_has_unknown_topics(member) for member in snapshot.members):
        return None
    given = {tp.topic for member in snapshot.members for tp in member.assignment}
    return frozenset(given.union(*((*member.topics, *(member.matched or ())) for member in snapshot.members)))


def _has_unknown_topics(member: MemberSnapshot) -> bool:
    return member.matched is None if member.regex is not None else not member.topics


def sum_of(lags: Iterable[LagOfPartition]) -> LagSum:
    """Sum the lags of partitions: None if all lags are unknown, a lower bound if some lags are unknown."""
    all_of = list(lags)
    records = [lag.records for lag in all_of if lag.records is not None]
    stable = [lag.stable_records for lag in all_of if lag.stable_records is not None]
    times = [lag.time_ms for lag in all_of if lag.time_ms is not None]
    unknown = len(all_of) - len(records)
    behind = [lag for lag in all_of if lag.draining not in ("empty", "steady")]
    etas = [lag.eta_ms for lag in behind if lag.eta_ms is not None]
    draining: Draining = "unknown"
    if all_of and not behind:
        draining = "steady" if any(lag.draining == "steady" for lag in all_of) else "empty"
    if any(lag.draining == "growing" for lag in behind):
        draining = "growing"
    elif behind and len(etas) == len(behind):
        draining = "draining"
    return LagSum(
        partitions=len(all_of),
        records=sum(records) if records else None,
        stable_records=sum(stable) if stable else None,
        time_ms=max(times, default=None),
        time_complete=len(times) == len(records) and not unknown,
        unknown=unknown,
        eta_ms={"empty": 0, "draining": max(etas, default=0)}.get(draining),
        draining=draining,
    )


History = Sequence[tuple[int, Mapping[TopicPartition, PartitionSnapshot], Mapping[TopicPartition, str]]]
"""Snapshots of a group, oldest first: time, partitions, and the member id of the owner of each partition."""


def _history_of(window: Sequence[GroupSnapshot]) -> History:
    return [
        (
            sample.at_ms,
            {p.partition: p for p in sample.partitions},
            {tp: member.member_id for member in sample.members for tp in member.assignment},
        )
        for sample in window
    ]


def _samples(history: History, tp: TopicPartition, since_ms: int | None) -> tuple[LagSample, ...]:
    samples: list[LagSample] = []
    owner = history[-1][2].get(tp)
    for at_ms, partitions, owners in reversed(history):
        sampled = partitions.get(tp)
        if sampled is None or sampled.committed is None or sampled.log_end is None:
            break
        if samples and (
            (since_ms is not None and at_ms < since_ms)
            or owners.get(tp) != owner
            or sampled.committed > samples[-1].committed
            or sampled.log_end > samples[-1].log_end
        ):
            break
        samples.append(LagSample(at_ms, sampled.committed, sampled.log_end, sampled.last_stable, sampled.log_start))
    samples.reverse()
    return tuple(samples)


def _highest(window: Sequence[GroupSnapshot]) -> dict[TopicPartition, tuple[int, int]]:
    highest: dict[TopicPartition, tuple[int, int]] = {}
    for snapshot in window:
        for p in snapshot.partitions:
            if p.committed is not None and p.committed >= highest.get(p.partition, (0, 0))[0]:
                highest[p.partition] = (p.committed, snapshot.at_ms)
    return highest


def _grown(history: History, tp: TopicPartition) -> tuple[int, int]:
    owner, (last_ms, partitions, _) = history[-1][2].get(tp), history[-1]
    end = partitions[tp].log_end
    first_ms, first = last_ms, end
    for at_ms, then, owners in reversed(history):
        sampled = then.get(tp)
        if sampled is None or sampled.log_end is None or owners.get(tp) != owner:
            break
        first_ms, first = at_ms, sampled.log_end
    return max((end or 0) - (first or 0), 0), last_ms - first_ms


def _partition(
    at: PartitionSnapshot,
    now: GroupSnapshot,
    owner: MemberSnapshot | None,
    samples: tuple[LagSample, ...],
    topics: frozenset[str] | None,
) -> LagOfPartition:
    if at.committed is None or at.log_end is None:
        blame = _blame_without_offset(at, now, owner, topics)
        if blame == "none":  # a partition without lag has no cause of lag
            return LagOfPartition(at=at, owner=owner, records=0, time_ms=0, blame=blame, draining="empty")
        return LagOfPartition(at=at, owner=owner, blame=blame, unknown=at.error or "never committed")
    if at.committed > at.log_end:
        why = f"its committed offset {at.committed} is beyond the log end offset {at.log_end}"
        old = owner is None and topics is not None and at.partition.topic not in topics
        beyond: Blame = "not_subscribed" if old else "beyond_the_end"
        return LagOfPartition(at=at, owner=owner, blame=beyond, unknown=why)
    readable = max(at.committed, at.log_start or 0)
    records = max(at.log_end - readable, 0)
    if at.waiting is False and at.last_stable is not None and at.last_stable >= at.log_end:
        time_ms: int | None = 0
    else:
        time_ms = _waited(at, now.at_ms, samples) if records else 0
    written, read = _rates(samples)
    idle = not records or (at.waiting is False and time_ms == 0)
    trend: tuple[int | None, Draining] = (0, "empty")
    if not idle:
        trend = _drain(records, written, read, time_ms, samples)
    lag = LagOfPartition(
        at=at,
        owner=owner,
        records=records,
        stable_records=None if at.last_stable is None else max(at.last_stable - readable, 0),
        time_ms=time_ms,
        lead=None if at.log_start is None else max(at.committed - at.log_start, 0),
        lost=max((at.log_start or 0) - at.committed, 0),
        unmoved_ms=_unmoved_ms(at, now.at_ms, samples),
        samples=samples,
        written_per_s=written,
        read_per_s=read,
        eta_ms=trend[0],
        draining=trend[1],
    )
    return msgspec.structs.replace(lag, blame="none" if idle else _blame_of(lag, now, topics))


def _blame_without_offset(
    at: PartitionSnapshot, now: GroupSnapshot, owner: MemberSnapshot | None, topics: frozenset[str] | None
) -> Blame:
    if at.deleted and owner is None and at.partition.topic not in (topics or ()):
        return "not_subscribed"
    if at.error is not None or at.committed is not None:
        return "unknown"
    if at.log_end is not None and at.log_end <= (at.log_start or 0):
        return "none"
    is_read = topics is not None and at.partition.topic in topics
    if owner is None and is_read and at.log_end is not None and now.state not in IN_ROUND:
        return "no_owner"
    return "never_committed"


def _waited(at: PartitionSnapshot, now_ms: int, samples: tuple[LagSample, ...]) -> int | None:
    """Return the age of the next record to consume, in ms; None if its timestamp is in the future.

    If the producer's clock is fast, the age by the record's timestamp is too low. Then older snapshots give a lower
    bound.
    """
    then = at.committed_record_at_ms
    if then is None or not 0 <= then <= now_ms:
        return None
    since_ms = now_ms
    for sample in reversed(samples):
        if sample.committed != at.committed or not sample.lag:
            break
        since_ms = sample.at_ms
    return now_ms - min(then, since_ms)


def _rates(samples: tuple[LagSample, ...]) -> tuple[float | None, float | None]:
    if len(samples) < 2 or samples[-1].at_ms <= samples[0].at_ms:
        return None, None
    first, last = samples[0], samples[-1]
    passed_s = (last.at_ms - first.at_ms) / 1000
    return (last.log_end - first.log_end) / passed_s, (last.committed - first.committed) / passed_s


def _drain(
    records: int, written: float | None, read: float | None, time_ms: int | None, samples: tuple[LagSample, ...]
) -> tuple[int | None, Draining]:
    """Return time to drain and trend of a lag. Commits are not continuous, so a lag has noise between two commits."""
    if written is None or read is None:
        return None, "unknown"
    is_fresh = time_ms is not None and time_ms < FRESH_MS
    if is_fresh:
        return None, "steady" if read > 0 else "unknown"
    if read > written:
        return round(records / (read - written) * 1000), "draining"
    growth = samples[-1].lag - samples[0].lag
    if read > 0 and growth <= written * USUAL_COMMIT_MS / 1000:
        return None, "steady"
    return None, "growing"


def _unmoved_ms(at: PartitionSnapshot, now_ms: int, samples: tuple[LagSample, ...]) -> int:
    since_ms = now_ms
    for sample in reversed(samples):
        if sample.committed != at.committed:
            break
        since_ms = sample.at_ms
    if at.unmoved_since_ms is not None:
        since_ms = min(since_ms, at.unmoved_since_ms)
    return now_ms - since_ms


def _blame_of(lag: LagOfPartition, now: GroupSnapshot, topics: frozenset[str] | None) -> Blame:
    at = lag.at
    if topics is not None and at.partition.topic not in topics and lag.owner is None:
        return "not_subscribed"
    if lag.owner is None and now.members:
        return "unknown" if now.state in IN_ROUND else "no_owner"
    if at_open_transaction(at):
        return "open_transaction"
    moves = lag.samples[-1].committed > lag.samples[0].committed
    fresh = lag.time_ms is not None and lag.time_ms < FRESH_MS
    # clients that are no members (Spark) can commit: advancing committed offsets show an active consumer
    if not now.members and not moves:
        return "between_commits" if fresh else "no_members"
    if lag.draining == "draining":
        return "catching_up"
    if fresh:
        return "between_commits"
    if lag.span_ms < JUDGED_AFTER_MS or (not moves and may_be_marker(lag)):
        return "unknown"
    return "slow_member" if moves else "stopped_member"


def at_open_transaction(at: PartitionSnapshot) -> bool:
    """Return True if read_committed consumers can read no further record because of an open transaction."""
    if at.committed is None or at.last_stable is None or at.log_end is None:
        return False
    held = at.last_stable <= at.committed or at.waiting is False
    return held and at.last_stable < at.log_end and at.committed < at.log_end


def may_be_marker(lag: LagOfPartition) -> bool:
    """Return True if the only unconsumed offset of the partition may be a transaction marker."""
    return lag.at.waiting is None and lag.records == 1 and all(sample.lag == 1 for sample in lag.samples)


def _skewed(lags: list[LagOfPartition]) -> list[LagOfPartition]:
    rates = [lag.written_per_s for lag in lags if lag.written_per_s is not None]
    if len(rates) < 2:
        return lags
    total = sum(rates)

    def stands_out(lag: LagOfPartition) -> bool:
        rate = lag.written_per_s
        return rate is not None and rate > 0 and rate >= SKEW_FACTOR * (total - rate) / (len(rates) - 1)

    return [
        msgspec.structs.replace(lag, blame="skew") if lag.blame == "slow_member" and stands_out(lag) else lag
        for lag in lags
    ]


def works_through_backlog(lag: LagOfPartition) -> bool:
    """Return True if the owner of the partition commits progress, and every sample of the partition has a lag."""
    samples = lag.samples
    return bool(samples) and samples[-1].committed > samples[0].committed and all(sample.lag for sample in samples)


def _behind_others(lags: list[LagOfPartition]) -> list[LagOfPartition]:
    """Set the cause ``slow_member`` for partitions whose owner consumes the backlog of another partition.

    A consumer returns all fetched records of one partition before those of the next partition. So a slow member with a
    backlog in one partition commits nothing in its other partitions.
    """
    busy = {lag.owner.member_id for lag in lags if lag.owner is not None and works_through_backlog(lag)}
    return [
        msgspec.structs.replace(lag, blame="slow_member")
        if lag.owner is not None and lag.owner.member_id in busy and lag.blame in ("stopped_member", "never_committed")
        else lag
        for lag in lags
    ]


def _blame(lags: Sequence[LagOfPartition]) -> tuple[Blame, MemberSnapshot | None]:
    weights: dict[Blame, int] = {}
    for lag in lags:
        if lag.blame != "none":
            weights[lag.blame] = weights.get(lag.blame, 0) + max(lag.records or 0, 1)
    if not weights:
        return "none", None
    blame = max(weights, key=lambda name: weights[name])
    if blame not in ("slow_member", "stopped_member", "skew"):
        return blame, None
    by_member: dict[str, int] = {}
    members = {lag.owner.member_id: lag.owner for lag in lags if lag.owner is not None}
    for lag in lags:
        if lag.blame == blame and lag.owner is not None:
            by_member[lag.owner.member_id] = by_member.get(lag.owner.member_id, 0) + (lag.records or 0)
    return blame, members[max(by_member, key=lambda member_id: by_member[member_id])] if by_member else None
