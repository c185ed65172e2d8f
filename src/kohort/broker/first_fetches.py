"""First Fetch of each moved partition by its new owner, which ends the delay that the rebalance caused.

A Fetch request contains no group id, so it counts for a member with the same client id and host. The broker writes a
journal entry for each moved partition when its new owner first fetches it. The number of awaited partitions is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from kohort.coordinator.journal import (
    AssignmentWritten,
    ClientIdentity,
    JournalEntry,
    MemberReconciled,
    RoundClosed,
    RoundOpened,
)
from kohort.coordinator.journal_events import PartitionsResumed, ResumedPartition
from kohort.coordinator.journal_evidence import names_fit
from kohort.coordinator.offsets.state import GroupOffsets
from kohort.log.topics import Topics

K = TypeVar("K")
V = TypeVar("V")

AWAITED_MOST: Final = 10_000
GROUPS_MOST: Final = 1_000
OF_GROUPS_MOST: Final = 100_000
"""Maximum number over all groups, both of stored members without assignment and of stored partition lags."""
LAGS_MOST: Final = 1_000
"""Maximum number of partitions with committed offsets in a group whose lags are stored; larger groups have no lags."""
CHECKED_MOST: Final = 5_000
CommittedOf = Callable[[str], GroupOffsets | None]
FetchedPartition = tuple[str, int, int]


class AwaitedFetch(NamedTuple):
    """An assigned partition that its new owner has not fetched yet."""

    group: str
    member: ClientIdentity
    generation: int
    lag_before: int | None


class FirstFetches:
    """Partitions that their new owners have not fetched yet, on all nodes of a process."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._awaited: dict[tuple[str, int], AwaitedFetch] = {}
        self._members: dict[str, dict[str, ClientIdentity]] = {}
        """Members without assignment that joined a group, as a dict: group id to members by member id."""
        self._lags: dict[str, dict[tuple[str, int], int]] = {}
        """Lags at the start of the current rebalance, as a dict: group id to lag of each partition."""

    def __bool__(self) -> bool:
        return bool(self._awaited)

    def follow(self, entries: Iterable[JournalEntry], committed: CommittedOf) -> None:
        """Store the partitions that rebalances assign to new owners, from journal entries of the rebalances."""
        for entry in entries:
            if isinstance(entry, RoundOpened):
                _keep_of_group(self._lags, entry.group, self._lags_of(committed(entry.group)))
            elif isinstance(entry, RoundClosed):
                members = {who.member_id: who for who in entry.members if _is_memorable(entry.group, who)}
                _keep_of_group(self._members, entry.group, members)
            elif isinstance(entry, AssignmentWritten):
                members = self._members.pop(entry.group, {})
                lags = self._lags.pop(entry.group, {})
                for move in entry.moves:
                    who = members.get(move.after or "")
                    if who is not None:
                        place = move.topic, move.partition
                        awaited = AwaitedFetch(entry.group, who, entry.generation, lags.get(place))
                        _keep(self._awaited, place, awaited, most=AWAITED_MOST)
            elif isinstance(entry, MemberReconciled) and entry.given and _is_memorable(entry.group, entry.member):
                for given in entry.given:
                    place = given.topic, given.partition
                    awaited = AwaitedFetch(entry.group, entry.member, entry.epoch, None)
                    _keep(self._awaited, place, awaited, most=AWAITED_MOST)

    def _lags_of(self, offsets: GroupOffsets | None) -> dict[tuple[str, int], int]:
        if offsets is None or len(offsets) > LAGS_MOST:
            return {}
        ends = ((topic, p, held.offset, self._end(topic, p)) for topic, p, held in offsets)
        return {(topic, p): max(0, end - offset) for topic, p, offset, end in ends if end is not None}

    def _end(self, name: str, partition: int) -> int | None:
        topic = self._topics.get(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return topic.partitions[partition].high_watermark

    def fetched(
        self, client_id: str, client_host: str, partitions: Iterable[FetchedPartition], now_ms: int
    ) -> Sequence[PartitionsResumed]:
        """Return a journal entry for each fetched partition whose new owner fetches it for the first time."""
        found: dict[tuple[str, ClientIdentity, int], list[ResumedPartition]] = {}
        for topic, partition, offset in partitions:
            awaited = self._awaited.get((topic, partition))
            if awaited is None or (awaited.member.client_id, awaited.member.client_host) != (client_id, client_host):
                continue
            del self._awaited[topic, partition]
            end = self._end(topic, partition)
            lag = None if end is None else max(0, end - offset)
            resumed = ResumedPartition(topic, partition, offset, lag, awaited.lag_before)
            found.setdefault((awaited.group, awaited.member, awaited.generation), []).append(resumed)
        return [
            PartitionsResumed(at_ms=now_ms, group=group, member=who, generation=generation, partitions=tuple(resumed))
            for (group, who, generation), resumed in found.items()
        ]


def _is_memorable(group: str, who: ClientIdentity) -> bool:
    return names_fit(group, who.member_id, who.client_id, who.instance_id)


def _keep_of_group(kept: dict[str, dict[K, V]], group: str, held: dict[K, V]) -> None:
    if not names_fit(group):
        return
    _keep(kept, group, held)
    surplus = sum(map(len, kept.values())) - OF_GROUPS_MOST
    for oldest in list(kept) if surplus > 0 else ():
        if surplus <= 0:
            break
        surplus -= len(kept.pop(oldest))


def _keep(kept: dict[K, V], key: K, value: V, *, most: int = GROUPS_MOST) -> None:
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]
