"""Changes and faults of a group, the same for each generation."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kohort_lab.sim.generations.group_world import AWAY_MS, GroupMember, GroupWorld

OUTLASTS_MS: Final = 4_000
"""Absence of a member beyond its session timeout, in ms."""
NOTICED_MS: Final = 6_000
"""Longest time until ownership reflects a change (several heartbeats), in ms."""

Strike = Callable[[GroupWorld, GroupMember], None]


@dataclass(frozen=True, slots=True)
class GroupChange:
    """Kind of change; ``strike`` gets the group and a random member."""

    name: str
    what: str
    strike: Strike
    is_fault: bool = False

    def takes_ms(self, group: GroupWorld) -> int:
        """Return the shortest duration of the change, in ms."""
        if self.name == "broker moves":
            return AWAY_MS + NOTICED_MS
        return away_ms(group) if self.is_fault else NOTICED_MS


def away_ms(group: GroupWorld) -> int:
    """Return the absence of a member, longer than its session timeout, in ms."""
    return group.setup.session_timeout_ms + OUTLASTS_MS


CHANGES: Final = {
    change.name: change
    for change in (
        GroupChange("joins", "one more member starts", lambda group, _: group.join()),
        GroupChange("leaves", "a member closes in order", lambda _, member: member.leave()),
        GroupChange("is killed", "a member's process ends without a goodbye", lambda _, member: member.kill("kill -9")),
        GroupChange(
            "pauses",
            "a member's process stands still for longer than its session, and goes on",
            lambda group, member: group.freeze(member, away_ms(group)),
            is_fault=True,
        ),
        GroupChange(
            "is cut off",
            "a member does not reach what coordinates it for longer than its session, but all else",
            lambda group, member: group.cut_off(member, away_ms(group)),
            is_fault=True,
        ),
        GroupChange(
            "broker moves",
            "the broker that coordinates the group stops, and comes back",
            lambda group, _: group.move_broker(),
        ),
        GroupChange("topic grows", "the topic gets a quarter more partitions", lambda group, _: group.grow()),
    )
}


def victim(group: GroupWorld, rng: random.Random) -> GroupMember:
    """Draw a running member."""
    return rng.choice(group.alive)
