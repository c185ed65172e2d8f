"""What can happen to a group, the same to each generation: changes that are meant to be, and faults."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kohort_lab.sim.generations.group_world import AWAY_MS, GroupMember, GroupWorld

OUTLASTS_MS: Final = 4_000
"""How much longer than the session timeout a member is away."""
NOTICED_MS: Final = 6_000
"""How long it takes at most until a change shows in who owns what: some heartbeats."""

Strike = Callable[[GroupWorld, GroupMember], None]


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One kind. ``strike`` is given the group and the member that is drawn from the seed."""

    name: str
    what: str
    strike: Strike
    is_fault: bool = False

    def takes_ms(self, group: GroupWorld) -> int:
        """Return how long it lasts at least, in milliseconds."""
        if self.name == "broker moves":
            return AWAY_MS + NOTICED_MS
        return away_ms(group) if self.is_fault else NOTICED_MS


def away_ms(group: GroupWorld) -> int:
    """Return for how long a fault keeps a member away: longer than its session lives."""
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
    """Draw the member that a change strikes."""
    return rng.choice(group.alive)
