"""Scenarios of a what-if, assumptions about clients, and the pauses computed from these assumptions."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from kohort.model import TopicPartition

KillMode = Literal["poll", "sigkill", "close"]
"""Cause of a member's end: no poll within ``max.poll.interval.ms``, SIGKILL, or ``close()``."""


class WhatIfMember(msgspec.Struct, frozen=True, kw_only=True):
    """Member as input of the assignor; ``owned``: its assignment, or its target assignment in a consumer group."""

    member_id: str
    client_id: str = ""
    instance_id: str | None = None
    topics: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    regex: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    rack: str | None = None
    eager: bool = False
    """True if the member also supports an eager assignor, and so revokes all its partitions in each rebalance."""
    is_new: bool = False


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a group. ``newcomers``: pairs of member id and instance id; they get the commonest subscription."""

    newcomers: tuple[tuple[str, str | None], ...] = ()
    remove: tuple[str, ...] = ()
    kill: tuple[tuple[str, KillMode], ...] = ()
    assignor: str | None = None
    partitions: dict[str, int] = {}
    rolling_restart: bool = False
    """True to restart all members one after another; restarted members use the new assignor or protocol."""
    all_static: bool = False
    to_consumer: bool = False
    new_ids: dict[str, str] = {}
    """New member id of each restarted member (key: old member id), if known; assignors sort members by id."""


class Assumptions(msgspec.Struct, frozen=True, kw_only=True):
    """Client settings and durations that a snapshot lacks, in milliseconds; the defaults of settings are Kafka's."""

    heartbeat_ms: int = 3000
    consumer_heartbeat_ms: int = 5000
    session_timeout_ms: int = 45_000
    max_poll_interval_ms: int = 300_000
    shortest_round_ms: int = 100
    """Shortest duration of a rebalance (callbacks, JoinGroup, SyncGroup), in ms."""
    restart_from_ms: int = 5_000
    restart_to_ms: int = 30_000


class PauseRange(NamedTuple):
    """Shortest and longest time for which one partition is not read, in milliseconds."""

    least: int = 0
    most: int = 0

    def plus(self, other: PauseRange) -> PauseRange:
        return PauseRange(self.least + other.least, self.most + other.most)


def pause_of_step(mode: str, assume: Assumptions) -> PauseRange:
    """Return the pause in one rebalance: of all partitions if the assignor is eager, else of the moved partitions."""
    beat = assume.consumer_heartbeat_ms if mode == "consumer" else assume.heartbeat_ms
    return PauseRange(assume.shortest_round_ms, assume.shortest_round_ms + beat)


def pause_of_loss(how: KillMode, assume: Assumptions, *, static: bool) -> PauseRange:
    """Return the time from the failure or close of a member until its partitions have a new owner."""
    if how == "poll":
        return PauseRange(assume.max_poll_interval_ms, assume.max_poll_interval_ms)
    if how == "close" and not static:
        return PauseRange()
    return PauseRange(max(0, assume.session_timeout_ms - assume.heartbeat_ms), assume.session_timeout_ms)


def pause_of_absence(assume: Assumptions) -> PauseRange:
    """Return the time for which a restarting member's partitions have no consumer."""
    return PauseRange(assume.restart_from_ms, assume.restart_to_ms)


def pause_assumptions(mode: str, assume: Assumptions) -> list[str]:
    beat = (assume.consumer_heartbeat_ms if mode == "consumer" else assume.heartbeat_ms) / 1000
    pauses = {
        "eager": "all partitions pause in each rebalance (eager)",
        "cooperative": "only moved partitions pause (cooperative)",
        "consumer": "only moved partitions pause (consumer protocol)",
    }
    least_s = assume.shortest_round_ms / 1000
    return [
        f"{pauses[mode]}, for {least_s:g} to {least_s + beat:g} s each: members notice it with a heartbeat, every"
        f" {beat:g} s, and poll without delay"
    ]
