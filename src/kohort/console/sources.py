"""The seam of the console: where findings come from, live or recorded; and what is asked of either."""

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

Kind = Literal["live", "recorded"]


@dataclass(frozen=True, slots=True)
class GroupsKnown:
    """The groups at a time; ``rebalances`` are those of the last hour, None without a journal.

    ``unseen`` lists gaps of the whole cluster, ``unseen_groups`` the gaps of single groups. A group that is only in
    ``unseen_groups`` is listed, but not described.
    """

    at_ms: int
    groups: Mapping[str, GroupFinding]
    rebalances: Mapping[str, Sequence[RebalanceFinding]] | None = None
    unseen: Sequence[str] = ()
    unseen_groups: Mapping[str, str] = field(default_factory=dict)

    @property
    def unknown(self) -> dict[str, str]:
        return {group: why for group, why in self.unseen_groups.items() if group not in self.groups}


@dataclass(frozen=True, slots=True)
class SourceAbout:
    kind: Kind
    title: str
    cluster_id: str | None = None
    address: str | None = None
    journal: JournalReport = field(default_factory=lambda: JournalReport(kind=None))


@dataclass(frozen=True, slots=True)
class ReachNews:
    unreachable: UnreachableCluster | None


@dataclass(frozen=True, slots=True)
class SourceNews:
    """Changes since the last sample: changed findings, deleted groups, entries of the journal, groups without a
    description (with the reason), and reachability."""

    changed: Sequence[GroupFinding] = ()
    gone: Sequence[str] = ()
    entries: Sequence[JournalEntry] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    reach: ReachNews | None = None


class ConsoleSource(Protocol):
    """State that the console shows, for any thread; requests to a cluster take time.

    ``at_ms``: as known then, None: now. Raises NothingThere for a missing group, ClusterUnreachable for the present of
    an unreachable cluster.
    """

    def about(self) -> SourceAbout: ...

    def now_ms(self) -> int:
        """Return the present; of a recording, its end."""

    def known_until_ms(self) -> int:
        """Return the last moment with known state: now, or the start of an outage."""

    def unreachable(self) -> ClusterUnreachable | None:
        """Return the error of the present outage."""

    def groups(self, at_ms: int | None) -> GroupsKnown:
        """Return all groups; live, of the last sample, waiting for the first."""

    def snapshots(self, group: str) -> Sequence[GroupSnapshot]:
        """Return the kept looks at a group, oldest first."""

    def entries(self, group: str, until_ms: int | None) -> Sequence[JournalEntry]:
        """Return the entries of a group up to a time, oldest first."""

    def all_rebalances(self, since_ms: int, until_ms: int | None) -> Mapping[str, Sequence[RebalanceFinding]]:
        """Return the rebalances of all groups opened between two times."""

    def lag_points(self, group: str) -> Sequence[LagPoint]:
        """Return the lag of a group over time, oldest first."""

    def clients(self) -> WatchClients | None:
        """Return clients of the cluster; None for a recording."""

    def sees(self, group: str, topics: Iterable[str] = ()) -> bool:
        """Return whether the user may DESCRIBE the group and the topics."""

    def listen(self, tell: Callable[[SourceNews], object]) -> None:
        """Call ``tell`` with news, on any thread."""

    def begin(self) -> None: ...

    def end(self) -> None: ...
