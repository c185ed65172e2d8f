"""Looks at the states of all groups, and which of them lie within a round: what bounds how long a rebalance took.

A look and the records of its time arrive in any order: a group may be seen settled by a generation whose record is yet
to be read. So looks are kept for a while, and judged when a generation is read, by this machine's clock, to which
its times are brought by how late records of its partition come. What may lie on either side of it is not used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Set
from typing import Final, NamedTuple

from kohort.coordinator.journal import GenerationSeen
from kohort.insight.observed.state import REBALANCING, RoundSeen, WatchedGroup

LOOKS_KEPT: Final = 15
"""So many looks before a generation is read it may have been written, if a look is to tell of it."""


class Look(NamedTuple):
    """When it began and by when it was over, and the groups that did not stand still, or were not to be seen."""

    asked_ms: int
    until_ms: int
    unsettled: Set[str]


class RoundBounds(NamedTuple):
    """When a group was last seen not to rebalance before a generation, when it first was seen to, and its members then;
    by the coordinator's clock."""

    settled_ms: int | None = None
    rebalancing_ms: int | None = None
    present: tuple[str, ...] | None = None


UNSEEN: Final = RoundBounds()


class LooksKept:
    """The last looks, and the groups that have a round which was seen."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque(maxlen=LOOKS_KEPT)
        self._rounds: set[str] = set()

    def add(
        self, states: Mapping[str, str], asked_ms: int, until_ms: int, groups: Mapping[str, WatchedGroup]
    ) -> list[str]:
        """Take the states of groups as they were at some time from ``asked_ms`` to ``until_ms``; return the groups that
        were not seen to rebalance before."""
        rebalancing = {name for name, state in states.items() if state in REBALANCING}
        unsettled = rebalancing | (groups.keys() - states.keys())
        begun = []
        for name in sorted(rebalancing):
            group = groups.get(name)
            if group is None or group.seen is None or not group.seen.members or group.round is not None:
                continue
            group.round = RoundSeen(asked_ms, until_ms, self._last_settled(name))
            self._rounds.add(name)
            begun.append(name)
        for name in self._rounds - unsettled:
            group = groups.get(name)
            if group is None or group.round is None:
                self._rounds.discard(name)
            elif group.round.over_ms is None:
                group.round.over_ms = until_ms
        self._looks.append(Look(asked_ms, until_ms, unsettled))
        return begun

    def know(self, name: str) -> None:
        """Go on with a group whose round was seen by an earlier watcher."""
        self._rounds.add(name)

    def _last_settled(self, name: str) -> int | None:
        return next((look.asked_ms for look in reversed(self._looks) if name not in look.unsettled), None)

    def bounds(self, group: WatchedGroup, before: GenerationSeen, after: GenerationSeen, late_ms: int) -> RoundBounds:
        """Return what was seen of the round that ended with ``after``, and keep what is of the next one.

        ``late_ms`` is how much later than its time stamp a record of the group is read: at least the difference of the
        clocks.
        """
        done_ms = (after.at_ms if after.joined_ms is None else after.joined_ms) + late_ms
        settled_ms = next(
            (x.asked_ms for x in reversed(self._looks) if x.until_ms <= done_ms and group.group not in x.unsettled),
            None,
        )
        found, rebalancing_ms, present = group.round, None, None
        if found is not None and found.asked_ms <= after.at_ms + late_ms:
            group.round = None
            self._rounds.discard(group.group)
            if found.over_ms is None or found.over_ms > done_ms:  # else it was given up, and this is another one
                rebalancing_ms, settled_ms = found.until_ms - late_ms, found.settled_ms
                present = found.present if found.until_ms <= after.at_ms + late_ms else None
        settled_ms = None if settled_ms is None else settled_ms - late_ms
        return RoundBounds(settled_ms if (settled_ms or 0) > before.at_ms else None, rebalancing_ms, present)
