"""The seam of the console: where findings come from, live or recorded; and what is asked of either."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from kohort.results.console import JournalTold, UnreachableCluster

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
        """Groups without a description, and why."""
        return {group: why for group, why in self.unseen_groups.items() if group not in self.groups}


@dataclass(frozen=True, slots=True)
class SourceAbout:
    """What a source is of."""

    kind: Kind
    title: str
    cluster_id: str | None = None
    address: str | None = None
    journal: JournalTold = field(default_factory=lambda: JournalTold(kind=None))


@dataclass(frozen=True, slots=True)
class ReachNews:
    """The cluster stopped answering, or (``unreachable`` is None) answers again."""

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
    """Gives what the console shows. Any method may be called on any thread; what has to ask a cluster takes time.

    ``at_ms`` is "as it was known at that time", None is now. Raises NothingThere for a group that is not there, and
    ClusterUnreachable for the present of a cluster that does not answer.
    """

    def about(self) -> SourceAbout:
        """Say what it is of."""

    def now_ms(self) -> int:
        """Return the time that "now" is: of a recording, its end."""

    def known_until_ms(self) -> int:
        """Return the last moment with known state: now, or the start of an outage."""

    def unreachable(self) -> ClusterUnreachable | None:
        """Return the error of the present outage; None while the cluster answers."""

    def groups(self, at_ms: int | None) -> GroupsKnown:
        """Return all groups; live, the last sample, which is waited for where there is none yet."""

    def snapshots(self, group: str) -> Sequence[GroupSnapshot]:
        """Return the looks at a group that are kept, oldest first; empty where there are none."""

    def entries(self, group: str, until_ms: int | None) -> Sequence[JournalEntry]:
        """Return the entries of a group up to a time, oldest first."""

    def all_rebalances(self, since_ms: int, until_ms: int | None) -> Mapping[str, Sequence[RebalanceFinding]]:
        """Return the rebalances of all groups that were opened between two times."""

    def lag_points(self, group: str) -> Sequence[LagPoint]:
        """Return the lag of a group over time, oldest first; empty where it was not seen."""

    def clients(self) -> WatchClients | None:
        """Return how the cluster is reached; None where there is none."""

    def sees(self, group: str, topics: Iterable[str] = ()) -> bool:
        """Return whether the user may DESCRIBE the group and the topics."""

    def listen(self, tell: Callable[[SourceNews], object]) -> None:
        """Let ``tell`` know what is new, on whichever thread finds it."""

    def begin(self) -> None:
        """Begin to look."""

    def end(self) -> None:
        """Look no more."""
