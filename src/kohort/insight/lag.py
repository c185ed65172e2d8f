"""How far a group is behind: in records and in time, by partition, member, topic; who causes it; when it will be read.

Pure functions over looks at one group (``GroupSnapshot``), of which the youngest counts; from two on there are rates.
Unknown is None and never 0. Looks at a partition before its owner of now came, or before its offset went back, say
nothing of how it goes on, so they are forgotten (Cloudflare's rule: judged anew with each assignment).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot, PartitionSnapshot
from kohort.model import TopicPartition

Blame = Literal[
    "none",  # nothing waits
    "catching_up",  # read faster than it is written
    "between_commits",  # what waits is younger than two usual commits are apart
    "slow_member",  # its owner makes progress, but less than is written, or has yet to reach this partition
    "skew",  # so it is, of a partition that far more is written to than to the others
    "stopped_member",  # its owner commits no progress
    "open_transaction",  # readers of committed records wait for the end of a transaction
    "no_owner",  # no member has it
    "no_members",  # nobody is in the group
    "never_committed",
    "not_subscribed",  # an offset is left of a topic that no member reads any more
    "unknown",
]
Draining = Literal["empty", "draining", "growing", "unknown"]
"""Future of a lag: none, read within ``eta_ms``, never read at this rate, or unknown."""

USUAL_COMMIT_MS: Final = 5_000
"""Default of ``auto.commit.interval.ms``."""
FRESH_MS: Final = 2 * USUAL_COMMIT_MS
"""Longest wait between two commits of a group that keeps up."""
JUDGED_AFTER_MS: Final = 3 * USUAL_COMMIT_MS
"""Shortest time in which missing progress means anything."""
SKEWED: Final = 3
"""Multiple of the other partitions' average rate."""
IN_ROUND: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
"""States with intended unowned partitions."""


class Look(NamedTuple):
    """A partition at one moment."""

    at_ms: int
    committed: int
    log_end: int
    last_stable: int | None
    log_start: int | None = None

    @property
    def lag(self) -> int:
        return max(self.log_end - self.committed, 0)


class LagOfPartition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Lag of a group in one partition."""

    at: PartitionSnapshot
    owner: MemberSnapshot | None = None
    records: int | None = None
    """To the high watermark, as Kafka's tools count."""
    stable_records: int | None = None
    """To the last stable offset: for readers of committed records."""
    time_ms: int | None = None
    """Wait of the next record; 0 without one."""
    lead: int | None = None
    """Distance of the next record from the log start."""
    lost: int = 0
    """Unread records that retention deleted."""
    looks: tuple[Look, ...] = ()
    written_per_s: float | None = None
    read_per_s: float | None = None
    eta_ms: int | None = None
    draining: Draining = "unknown"
    blame: Blame = "unknown"
    unknown: str | None = None
    """Why ``records`` is None."""

    @property
    def partition(self) -> TopicPartition:
        return self.at.partition

    @property
    def span_ms(self) -> int:
        """Time between the first and the last look."""
        return self.looks[-1].at_ms - self.looks[0].at_ms if self.looks else 0

    @property
    def start_moved(self) -> int:
        """Records that retention deleted between the first and the last look."""
        if not self.looks:
            return 0
        return max((self.looks[-1].log_start or 0) - (self.looks[0].log_start or 0), 0)

    @property
    def counts(self) -> bool:
        """Whether the group reads the partition: False for a leftover offset."""
        return self.blame != "not_subscribed"


class LagSum(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Lag of the partitions of a member, a topic or a group."""

    partitions: int = 0
    records: int | None = None
    stable_records: int | None = None
    time_ms: int | None = None
    time_complete: bool = True
    """False: partitions with unknown wait may have a longer one."""
    unknown: int = 0
    """Partitions with records and unknown lag: ``records`` is a lower bound."""
    eta_ms: int | None = None
    draining: Draining = "unknown"


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    now: GroupSnapshot
    partitions: tuple[LagOfPartition, ...]
    total: LagSum
    members: dict[str, LagSum]
    topics: dict[str, LagSum]
    shared: tuple[int, int]
    """Number of members with partitions, and records that wait for them."""
    blame: Blame
    blamed: MemberSnapshot | None = None
    highest: dict[TopicPartition, tuple[int, int]]
    """Highest committed offset of each partition, and when it was last seen."""
    grown: dict[TopicPartition, tuple[int, int]]
    """Growth of each partition of unknown lag under its present owner: records, milliseconds."""


def lag_of(snapshots: Sequence[GroupSnapshot], since_ms: int | None = None) -> GroupLag:
    """Return the lag of the group of the newest snapshot, from the snapshots of that group.

    ``since_ms``: time of the last assignment, if known; earlier looks are ignored. Raises ValueError without snapshots.
    """
    window = window_of(snapshots)
    now = window[-1]
    history = _history_of(window)
    owners, topics = owners_of(now), subscribed(now)
    found = [
        _partition(p, now, owners.get(p.partition), _looks(history, p.partition, since_ms), topics)
        for p in now.partitions
    ]
    found = _behind_others(_skewed(found))
    mine = [lag for lag in found if lag.counts]
    by_owner: dict[str, list[LagOfPartition]] = {member.member_id: [] for member in now.members}
    by_topic: dict[str, list[LagOfPartition]] = {}
    for lag in mine:
        by_topic.setdefault(lag.partition.topic, []).append(lag)
        if lag.owner is not None:
            by_owner[lag.owner.member_id].append(lag)
    blame, blamed = _blame(mine)
    sums = {member_id: sum_of(lags) for member_id, lags in by_owner.items()}
    busy = [one for one in sums.values() if one.partitions]
    return GroupLag(
        now=now,
        partitions=tuple(found),
        total=sum_of(mine),
        members=sums,
        shared=(len(busy), sum(one.records or 0 for one in busy)),
        topics={topic: sum_of(lags) for topic, lags in by_topic.items()},
        blame=blame,
        blamed=blamed,
        highest=_highest(window),
        grown={
            p.partition: _grown(history, p.partition)
            for p in now.partitions
            if p.committed is None or p.log_end is None
        },
    )


def window_of(snapshots: Sequence[GroupSnapshot]) -> list[GroupSnapshot]:
    """Return the snapshots of the newest one's group, oldest first. Raises ValueError without any."""
    ordered = sorted(snapshots, key=lambda snapshot: snapshot.at_ms)
    if not ordered:
        raise ValueError("no snapshots: a lag is that of a group that was looked at")
    return [snapshot for snapshot in ordered if snapshot.group == ordered[-1].group]


def owners_of(snapshot: GroupSnapshot) -> dict[TopicPartition, MemberSnapshot]:
    return {tp: member for member in snapshot.members for tp in member.assignment}


def subscribed(snapshot: GroupSnapshot) -> frozenset[str] | None:
    """Return the topics of the members; None if unknown: no members, an unresolved expression, or no consumers."""
    if not snapshot.members or any(_is_unknown_what_reads(member) for member in snapshot.members):
        return None
    given = {tp.topic for member in snapshot.members for tp in member.assignment}
    return frozenset(given.union(*((*member.topics, *(member.matched or ())) for member in snapshot.members)))


def _is_unknown_what_reads(member: MemberSnapshot) -> bool:
    return member.matched is None if member.regex is not None else not member.topics


def sum_of(lags: Iterable[LagOfPartition]) -> LagSum:
    """Sum lags: None if all are unknown, a lower bound if some are."""
    all_of = list(lags)
    records = [lag.records for lag in all_of if lag.records is not None]
    stable = [lag.stable_records for lag in all_of if lag.stable_records is not None]
    times = [lag.time_ms for lag in all_of if lag.time_ms is not None]
    unknown = len(all_of) - len(records)
    behind = [lag for lag in all_of if lag.draining != "empty"]
    etas = [lag.eta_ms for lag in behind if lag.eta_ms is not None]
    draining: Draining = "empty" if all_of and not behind else "unknown"
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
"""Looks, oldest first: time, partitions, and owners by member id."""


def _history_of(window: Sequence[GroupSnapshot]) -> History:
    return [
        (
            look.at_ms,
            {p.partition: p for p in look.partitions},
            {tp: member.member_id for member in look.members for tp in member.assignment},
        )
        for look in window
    ]


def _looks(history: History, tp: TopicPartition, since_ms: int | None) -> tuple[Look, ...]:
    looks: list[Look] = []
    owner = history[-1][2].get(tp)
    for at_ms, partitions, owners in reversed(history):
        seen = partitions.get(tp)
        if seen is None or seen.committed is None or seen.log_end is None:
            break
        if looks and (
            (since_ms is not None and at_ms < since_ms)
            or owners.get(tp) != owner
            or seen.committed > looks[-1].committed
            or seen.log_end > looks[-1].log_end
        ):
            break
        looks.append(Look(at_ms, seen.committed, seen.log_end, seen.last_stable, seen.log_start))
    looks.reverse()
    return tuple(looks)


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
        seen = then.get(tp)
        if seen is None or seen.log_end is None or owners.get(tp) != owner:
            break
        first_ms, first = at_ms, seen.log_end
    return max((end or 0) - (first or 0), 0), last_ms - first_ms


def _partition(
    at: PartitionSnapshot,
    now: GroupSnapshot,
    owner: MemberSnapshot | None,
    looks: tuple[Look, ...],
    topics: frozenset[str] | None,
) -> LagOfPartition:
    if at.committed is None or at.log_end is None:
        blame = _blame_without_offset(at, now, owner, topics)
        if blame == "none":  # there is nothing in it
            return LagOfPartition(at=at, owner=owner, records=0, time_ms=0, blame=blame, draining="empty")
        return LagOfPartition(at=at, owner=owner, blame=blame, unknown=at.error or "never committed")
    records = max(at.log_end - at.committed, 0)
    if at.waiting is False and at.last_stable is not None and at.last_stable >= at.log_end:
        time_ms: int | None = 0
    else:
        time_ms = _waited(at, now.at_ms, looks) if records else 0
    written, read = _rates(looks)
    idle = not records or (at.waiting is False and time_ms == 0)
    eta_ms, becomes = _drain(records, written, read, idle=idle)
    lag = LagOfPartition(
        at=at,
        owner=owner,
        records=records,
        stable_records=None if at.last_stable is None else max(at.last_stable - at.committed, 0),
        time_ms=time_ms,
        lead=None if at.log_start is None else max(at.committed - at.log_start, 0),
        lost=max((at.log_start or 0) - at.committed, 0),
        looks=looks,
        written_per_s=written,
        read_per_s=read,
        eta_ms=eta_ms,
        draining=becomes,
    )
    return msgspec.structs.replace(lag, blame="none" if idle else _blame_of(lag, now, topics))


def _blame_without_offset(
    at: PartitionSnapshot, now: GroupSnapshot, owner: MemberSnapshot | None, topics: frozenset[str] | None
) -> Blame:
    if at.gone and owner is None and at.partition.topic not in (topics or ()):
        return "not_subscribed"
    if at.error is not None or at.committed is not None:
        return "unknown"
    if at.log_end is not None and at.log_end <= (at.log_start or 0):
        return "none"
    is_read = topics is not None and at.partition.topic in topics
    if owner is None and is_read and at.log_end is not None and now.state not in IN_ROUND:
        return "no_owner"
    return "never_committed"


def _waited(at: PartitionSnapshot, now_ms: int, looks: tuple[Look, ...]) -> int | None:
    """Return how long the next record has waited. With a slow clock, the looks tell a lower bound; a future time
    tells nothing."""
    then = at.committed_record_at_ms
    if then is None or not 0 <= then <= now_ms:
        return None
    since_ms = now_ms
    for look in reversed(looks):
        if look.committed != at.committed or not look.lag:
            break
        since_ms = look.at_ms
    return now_ms - min(then, since_ms)


def _rates(looks: tuple[Look, ...]) -> tuple[float | None, float | None]:
    if len(looks) < 2 or looks[-1].at_ms <= looks[0].at_ms:
        return None, None
    passed_s = (looks[-1].at_ms - looks[0].at_ms) / 1000
    return (looks[-1].log_end - looks[0].log_end) / passed_s, (looks[-1].committed - looks[0].committed) / passed_s


def _drain(records: int, written: float | None, read: float | None, *, idle: bool) -> tuple[int | None, Draining]:
    if idle:
        return 0, "empty"
    if written is None or read is None:
        return None, "unknown"
    if read <= written:
        return None, "growing"
    return round(records / (read - written) * 1000), "draining"


def _blame_of(lag: LagOfPartition, now: GroupSnapshot, topics: frozenset[str] | None) -> Blame:
    at = lag.at
    if topics is not None and at.partition.topic not in topics and lag.owner is None:
        return "not_subscribed"
    if lag.owner is None and now.members:
        return "unknown" if now.state in IN_ROUND else "no_owner"
    if at_open_transaction(at):
        return "open_transaction"
    moves = lag.looks[-1].committed > lag.looks[0].committed
    fresh = lag.time_ms is not None and lag.time_ms < FRESH_MS
    if not now.members and not moves:  # who commits without being a member, as Spark does, reads all the same
        return "between_commits" if fresh else "no_members"
    if lag.draining == "draining":
        return "catching_up"
    if fresh:
        return "between_commits"
    if lag.span_ms < JUDGED_AFTER_MS or (not moves and may_be_marker(lag)):
        return "unknown"
    return "slow_member" if moves else "stopped_member"


def at_open_transaction(at: PartitionSnapshot) -> bool:
    """Tell whether an open transaction holds all waiting records."""
    if at.committed is None or at.last_stable is None or at.log_end is None:
        return False
    held = at.last_stable <= at.committed or at.waiting is False
    return held and at.last_stable < at.log_end and at.committed < at.log_end


def may_be_marker(lag: LagOfPartition) -> bool:
    """Tell whether the only waiting offset may be a transaction marker: one offset in all looks, and no look into
    the log."""
    return lag.at.waiting is None and lag.records == 1 and all(look.lag == 1 for look in lag.looks)


def _skewed(lags: list[LagOfPartition]) -> list[LagOfPartition]:
    rates = [lag.written_per_s for lag in lags if lag.written_per_s is not None]
    if len(rates) < 2:
        return lags
    total = sum(rates)

    def stands_out(lag: LagOfPartition) -> bool:
        rate = lag.written_per_s
        return rate is not None and rate > 0 and rate >= SKEWED * (total - rate) / (len(rates) - 1)

    return [
        msgspec.structs.replace(lag, blame="skew") if lag.blame == "slow_member" and stands_out(lag) else lag
        for lag in lags
    ]


def works_through_backlog(lag: LagOfPartition) -> bool:
    """Tell whether commits moved while the lag was never zero."""
    looks = lag.looks
    return bool(looks) and looks[-1].committed > looks[0].committed and all(look.lag for look in looks)


def _behind_others(lags: list[LagOfPartition]) -> list[LagOfPartition]:
    """Blame a slow member, not a stopped one, where the owner works through the backlog of another partition.

    A consumer returns all records of one fetch of a partition before those of the next partition. So a slow member with
    a backlog commits nothing in partitions that it has yet to reach.
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
