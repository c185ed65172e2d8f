"""Interface of the console's data sources: a live cluster, a recording, or one of these limited to a user's rights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from kohort.results.console import JournalReport, UnreachableCluster

if TYPE_CHECKING:
    from kohort.console.lag_history import LagPoint
    from kohort.console.reachability import ClusterUnreachable
    from kohort.coordinator.journal import JournalEntry
    from kohort.insight.findings.groups import GroupFinding
    from kohort.insight.findings.model import RebalanceFinding
    from kohort.insight.snapshot import GroupSnapshot
    from kohort.watch.opening import WatchClients


@dataclass(frozen=True, slots=True)
class GroupsKnown:
    at_ms: int
    groups: Mapping[str, GroupFinding]
    rebalances: Mapping[str, Sequence[RebalanceFinding]] | None = None
    """Rebalances of each group in the last hour; None if there is no journal."""
    unseen: Sequence[str] = ()
    """Sentences about groups that were not sampled, because of a failed broker or a limit of the console."""
    unseen_groups: Mapping[str, str] = field(default_factory=dict)
    """Groups without a complete description, as a dict: group id -> reason."""

    @property
    def unknown(self) -> dict[str, str]:
        """Groups that the cluster listed but did not describe, each with the reason."""
        return {group: why for group, why in self.unseen_groups.items() if group not in self.groups}

    def rebalances_of(self, group: str) -> Sequence[RebalanceFinding] | None:
        return None if self.rebalances is None else self.rebalances.get(group, [])


@dataclass(frozen=True, slots=True)
class SourceAbout:
    kind: Literal["live", "recorded"]
    title: str
    cluster_id: str | None = None
    address: str | None = None
    journal: JournalReport = field(default_factory=lambda: JournalReport(kind=None))


@dataclass(frozen=True, slots=True)
class ReachNews:
    unreachable: UnreachableCluster | None


@dataclass(frozen=True, slots=True)
class SourceNews:
    changed: Sequence[GroupFinding] = ()
    deleted: Sequence[str] = ()
    entries: Sequence[JournalEntry] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Groups that the cluster listed but did not describe, each with the reason."""
    reach: ReachNews | None = None


class ConsoleSource(Protocol):
    """State of the groups that the console shows. Thread-safe. Methods that query a cluster block.

    ``at_ms`` is the time of the state; None: now. Methods raise NothingThere for a missing group. During an outage they
    raise ClusterUnreachable if ``at_ms`` is None.
    """

    def about(self) -> SourceAbout: ...

    def now_ms(self) -> int:
        """Return the present time in ms. For a recording, this is the time at which it ends."""

    def known_until_ms(self) -> int:
        """Return the last time with a known state, in ms: now, or the start of an outage."""

    def unreachable(self) -> ClusterUnreachable | None:
        """Return the error of the present outage; None while the cluster answers."""

    def groups(self, at_ms: int | None) -> GroupsKnown: ...

    def snapshots(self, group: str) -> Sequence[GroupSnapshot]:
        """Return the last snapshots of a group, oldest first."""

    def entries(self, group: str, until_ms: int | None) -> Sequence[JournalEntry]:
        """Return the journal entries of a group up to a time, oldest first."""

    def all_rebalances(self, since_ms: int, until_ms: int | None) -> Mapping[str, Sequence[RebalanceFinding]]:
        """Return for each group the rebalances that started in a time span."""

    def lag_points(self, group: str) -> Sequence[LagPoint]:
        """Return the lag of a group over time, oldest first."""

    def clients(self) -> WatchClients | None:
        """Return the Kafka clients for the cluster; None for a recording."""

    def sees(self, group: str, topics: Iterable[str] = ()) -> bool:
        """Return True if the logged-in user may DESCRIBE the group and the topics."""

    def listen(self, publish: Callable[[SourceNews], object]) -> None:
        """Call ``publish`` at each change of the groups. The call may come from any thread."""

    def begin(self) -> None: ...

    def end(self) -> None: ...
