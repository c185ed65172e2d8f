"""Scenarios of a what-if, assumptions about clients, and the pauses that follow from them."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from kohort.model import TopicPartition

KillHow = Literal["poll", "sigkill", "close"]
"""End of a member: without polls, killed, or closed."""


class WhatIfMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member as the assignor sees it; ``owned``: its assignment, or its target in a consumer group."""

    member_id: str
    client_id: str = ""
    instance_id: str | None = None
    topics: tuple[str, ...] = ()
    """Named topics, and those that its expression matches."""
    names: tuple[str, ...] = ()
    regex: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    rack: str | None = None
    eager: bool = False
    """It also offers an eager assignor, so it revokes everything in each rebalance."""
    is_new: bool = False


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to apply together. ``newcomers``: member ids and instance ids; they read what most members read."""

    newcomers: tuple[tuple[str, str | None], ...] = ()
    remove: tuple[str, ...] = ()
    kill: tuple[tuple[str, KillHow], ...] = ()
    assignor: str | None = None
    partitions: dict[str, int] = {}
    """Future partition counts."""
    rolling_restart: bool = False
    """All members in their order, one after the other; together with another assignor or protocol each comes back with
    that."""
    all_static: bool = False
    to_consumer: bool = False
    again: dict[str, str] = {}
    """Known ids of restarted members: they decide which member has one more."""


class Assumptions(msgspec.Struct, frozen=True, kw_only=True):
    """Clients' settings that a snapshot lacks: Kafka's defaults, in milliseconds."""

    heartbeat_ms: int = 3000
    """Of classic members."""
    modern_heartbeat_ms: int = 5000
    """Of consumer groups."""
    session_timeout_ms: int = 45_000
    max_poll_interval_ms: int = 300_000
    answer_ms: int = 100
    """Shortest round: callbacks, a join and a sync."""
    restart_from_ms: int = 5_000
    restart_to_ms: int = 30_000


class PauseRange(NamedTuple):
    """Time without reads of one partition, at best and at worst, in milliseconds."""

    least: int = 0
    most: int = 0

    def plus(self, other: PauseRange) -> PauseRange:
        return PauseRange(self.least + other.least, self.most + other.most)


def pause_of_step(manner: str, assume: Assumptions) -> PauseRange:
    """Return the pause of one rebalance: of all partitions with eager members, else of those that move."""
    beat = assume.modern_heartbeat_ms if manner == "consumer" else assume.heartbeat_ms
    return PauseRange(assume.answer_ms, assume.answer_ms + beat)


def pause_of_loss(how: KillHow, assume: Assumptions, *, static: bool) -> PauseRange:
    """Return how long partitions of a lost member wait for its removal."""
    if how == "poll":
        return PauseRange(assume.max_poll_interval_ms, assume.max_poll_interval_ms)
    if how == "close" and not static:
        return PauseRange()
    return PauseRange(max(0, assume.session_timeout_ms - assume.heartbeat_ms), assume.session_timeout_ms)


def pause_of_absence(assume: Assumptions) -> PauseRange:
    """Return the pause of a restart without takeover."""
    return PauseRange(assume.restart_from_ms, assume.restart_to_ms)


def told_assumptions(manner: str, assume: Assumptions) -> list[str]:
    beat = (assume.modern_heartbeat_ms if manner == "consumer" else assume.heartbeat_ms) / 1000
    who = {
        "eager": "all partitions pause in each rebalance (eager)",
        "cooperative": "only partitions that move pause (cooperative)",
        "consumer": "only partitions that move pause (consumer protocol)",
    }
    return [
        f"{who[manner]}, for {assume.answer_ms / 1000:g} to {assume.answer_ms / 1000 + beat:g} s each time: members "
        f"hear of it with a heartbeat, every {beat:g} s, and poll without delay",
    ]
