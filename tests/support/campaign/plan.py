"""Plans of the campaign, drawn from a seed: groups, their members, and a sequence of actions.

Equal seeds give equal plans. The rebalances that follow depend on the clients and the machine.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from support.campaign.clients import CLIENTS, CONSUMER, COOPERATIVE, EAGER, STRATEGIES

MOST_MEMBERS: Final = 5
DENIED_RESOURCES: Final = (
    (EAGER, "plain"),
    (COOPERATIVE, "pattern"),
    (CONSUMER, "static"),
    (EAGER, "static"),
    (COOPERATIVE, "plain"),
    (CONSUMER, "plain"),
    (EAGER, "pattern"),
    (COOPERATIVE, "static"),
    (CONSUMER, "pattern"),
)
"""Kinds of groups, in turn: their protocol, and whether members are static or subscribe by a pattern."""
CRASHES: Final = 3


@dataclass(frozen=True, slots=True)
class Role:
    """A planned member; a new process of the same role has the same client id and instance id."""

    client_id: str
    client: str
    instance: str | None = None

    @property
    def key(self) -> str:
        """Instance id, or else client id."""
        return self.instance or self.client_id


@dataclass(frozen=True, slots=True)
class PlannedAction:
    """One action and its members."""

    kind: str
    roles: tuple[Role, ...] = ()


@dataclass(slots=True)
class GroupPlan:
    """Plan of one group: its members and actions."""

    group: str
    protocol: str
    static: bool
    pattern: bool
    cast: tuple[Role, ...] = ()
    actions: list[PlannedAction] = field(default_factory=list)

    @property
    def strategy(self) -> str:
        """Assignment strategy of the members' clients."""
        return "range,roundrobin" if self.static and self.protocol == EAGER else STRATEGIES[self.protocol]


WEIGHTS: Final = {
    "join": 1.0,
    "leave": 1.0,
    "kill": 2.0,
    "freeze": 2.0,
    "stall": 2.0,
    "static_restart": 1.0,
    "static_expire": 2.0,
    "duplicate": 1.0,
    "assignor": 1.0,
    "subscribe": 1.0,
    "partitions": 1.0,
    "topic_created": 1.0,
    "topic_deleted": 1.0,
    "remove": 2.0,
    "enforce": 1.0,
    "rolling_restart": 4.0,
    "scale_out": 2.0,
    "scale_in": 2.0,
    "crash_loop": 6.0,
    "reform": 3.0,
}
"""About how many rebalances an action of each kind causes."""


def draw(seed: int, groups: int, rebalances: int) -> list[GroupPlan]:
    """Draw the plans of ``groups`` groups that together cause about ``rebalances`` rebalances."""
    chance = random.Random(seed)
    plans = []
    for n in range(groups):
        protocol, kind = DENIED_RESOURCES[n % len(DENIED_RESOURCES)]
        group = f"campaign-{seed}-{n:02}-{protocol}-{kind}"
        plan = GroupPlan(group, protocol, static=kind == "static", pattern=kind == "pattern")
        _Drawing(plan, random.Random(chance.random())).draw(rebalances / groups)
        plans.append(plan)
    return plans


class _Drawing:
    """A plan in progress: the current members and the possible actions."""

    def __init__(self, plan: GroupPlan, chance: random.Random) -> None:
        self._plan, self._chance = plan, chance
        self._members: list[Role] = []
        self._named = 0
        self._deck: list[str] = []
        self._topics = 1
        self._remaining_subscriptions = 1

    def draw(self, weight: float) -> None:
        """Draw actions until they cause about ``weight`` rebalances."""
        first = [self._new_role() for _ in range(self._chance.choice((2, 3)))]
        self._plan.cast = tuple(first)
        self._members = first
        made = 1.0 + 0.5 * (len(first) - 1)
        while made < weight:
            kind = self._next_kind()
            self._plan.actions.append(PlannedAction(kind, self._roles(kind)))
            made += WEIGHTS[kind] * (1.5 if self._plan.protocol == COOPERATIVE else 1)

    def _new_role(self) -> Role:
        fitting = [c for c in CLIENTS.values() if self._plan.protocol in c.protocols]
        if self._plan.pattern:
            fitting = [c for c in fitting if self._plan.protocol in c.patterns]
        client = self._chance.choice(fitting)
        self._named += 1
        client_id = f"{client.name}-{self._named}"
        return Role(client_id, client.name, f"static-{self._named}" if self._plan.static else None)

    def _next_kind(self) -> str:
        """Draw the next kind of action that is possible now; each kind once before any is repeated."""
        for _ in range(2):
            for kind in self._deck:
                if self._can(kind):
                    self._deck.remove(kind)
                    return kind
            self._deck = sorted(WEIGHTS)
            self._chance.shuffle(self._deck)
        raise RuntimeError("no action is possible")

    def _can(self, kind: str) -> bool:
        plan, size = self._plan, len(self._members)
        if kind in ("static_restart", "static_expire", "duplicate", "assignor"):
            other = {
                "assignor": plan.protocol == EAGER,
                "duplicate": plan.protocol != CONSUMER,
                "static_restart": bool(self._who_return()),
            }
            return plan.static and other.get(kind, True)
        if kind in ("topic_created", "topic_deleted"):
            return plan.pattern and (kind == "topic_created" or self._topics > 1)
        if kind == "partitions":
            return not plan.pattern
        if kind == "subscribe":
            return not plan.pattern and self._remaining_subscriptions > 0
        if kind == "stall":
            return any(self._can_stall(m) for m in self._members) and not plan.static
        if kind == "enforce":
            return plan.protocol != CONSUMER and any(CLIENTS[m.client].enforces for m in self._members)
        if kind in ("leave", "rolling_restart", "scale_in", "crash_loop", "reform") and plan.static:
            return False  # a static member does not leave the group when it exits
        if kind in ("kill", "freeze") and plan.static:
            return False  # reported as STATIC_EXPIRED
        least = {"leave": 2, "scale_in": 3, "kill": 2, "freeze": 2, "rolling_restart": 2, "remove": 2}
        most = {"join": 4, "scale_out": 3, "crash_loop": 4}
        return least.get(kind, 0) <= size <= most.get(kind, MOST_MEMBERS)

    def _who_return(self) -> list[Role]:
        return [m for m in self._members if self._plan.protocol in CLIENTS[m.client].returns]

    def _can_stall(self, role: Role) -> bool:
        return CLIENTS[role.client].leaves_on_stall

    def _roles(self, kind: str) -> tuple[Role, ...]:
        """Draw the members of an action, and update the current members."""
        pick = self._chance.choice
        if kind in ("join", "crash_loop"):
            role = self._new_role()
            if kind == "join":
                self._members.append(role)
            return (role,)
        if kind == "scale_out":
            joined = (self._new_role(), self._new_role())
            self._members += joined
            return joined
        if kind in ("leave", "kill"):
            removed = pick(self._members)
            self._members.remove(removed)
            return (removed,)
        if kind == "scale_in":
            out = tuple(self._chance.sample(self._members, 2))
            self._members = [m for m in self._members if m not in out]
            return out
        if kind in ("rolling_restart", "reform"):
            return tuple(self._members)
        if kind in ("topic_created", "topic_deleted"):
            self._topics += 1 if kind == "topic_created" else -1
            return tuple(self._members)
        if kind == "partitions":
            return tuple(self._members)
        if kind == "subscribe":
            self._remaining_subscriptions -= 1
        return (pick(self._able(kind)),)

    def _able(self, kind: str) -> list[Role]:
        """Return the members that support an action of this kind."""
        if kind == "static_restart":
            return self._who_return()
        if kind == "stall":
            return [m for m in self._members if self._can_stall(m)]
        if kind == "enforce":
            return [m for m in self._members if CLIENTS[m.client].enforces]
        return self._members
