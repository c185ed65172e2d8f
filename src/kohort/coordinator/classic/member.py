"""A member of a classic group as its round knows it: protocols, timeouts, what it has parked.

The rules: protocol/groups.md#members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from kohort.coordinator.context import Context
from kohort.coordinator.journal import Vitals, Who
from kohort.coordinator.outcome import GroupRequest, TimerKey

NEW_MEMBER_TIMEOUT_MS: Final = 300_000
"""The session of a member whose first generation is still to come, whatever it asked for.

The rules: protocol/groups.md#new-members.
"""


def round_timer(group_id: str) -> TimerKey:
    return TimerKey("round", group_id)


def sync_timer(group_id: str) -> TimerKey:
    return TimerKey("sync", group_id)


def session_timer(group_id: str, member_id: str) -> TimerKey:
    return TimerKey("session", group_id, member_id)


def pending_timer(group_id: str, member_id: str) -> TimerKey:
    """Return the key of the timer that forgets an id that was handed out and did not come back."""
    return TimerKey("pending", group_id, member_id)


Protocols = tuple[tuple[str, bytes], ...]


@dataclass(slots=True, kw_only=True)
class Presence:
    """Signs of life of a member of either protocol: its session, and evidence for the journal. Never persisted."""

    expires_at_ms: int
    """End of the session. Heartbeats move it without touching the timer, which checks it when it fires."""
    last_seen_ms: int
    connection: int = -1
    longest_gap_ms: int = 0
    commits: int = 0
    last_progress_ms: int | None = None
    last_commit_ms: int | None = None

    def note_request(self, connection: int, now_ms: int) -> None:
        gap_ms = now_ms - self.last_seen_ms
        if gap_ms > self.longest_gap_ms:  # max() would cost each heartbeat a call
            self.longest_gap_ms = gap_ms
        self.last_seen_ms = now_ms
        self.connection = connection

    def evidence(self, session_timeout_ms: int, rebalance_timeout_ms: int, ctx: Context) -> Vitals:
        """Return the signs of life as the journal has them."""
        stalled_ms, stalled_at_ms = ctx.evidence.stalls.since(self.last_seen_ms, ctx.now_ms)
        return Vitals(
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            last_seen_ms=self.last_seen_ms,
            longest_gap_ms=self.longest_gap_ms,
            connection_closed_at_ms=ctx.evidence.connections.closed_at_ms(self.connection),
            commits=self.commits,
            last_progress_ms=self.last_progress_ms,
            last_commit_ms=self.last_commit_ms,
            stalled_ms=stalled_ms,
            stalled_at_ms=stalled_at_ms,
        )


@dataclass(slots=True, kw_only=True)
class Member(Presence):
    """A member with its parked requests: at most one JoinGroup and one SyncGroup."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """From its first join until the join phase completes; its session is five minutes for so long."""
    join: GroupRequest | None = None
    sync: GroupRequest | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def who(self) -> Who:
        return Who(self.member_id, self.client_id, self.client_host, self.instance_id)

    def metadata_of(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def renew_session(self, now_ms: int) -> None:
        """Restart the session; a timer that fires earlier is set again."""
        self.expires_at_ms = now_ms + (NEW_MEMBER_TIMEOUT_MS if self.is_new else self.session_timeout_ms)

    @property
    def is_excused(self) -> bool:
        """Waits for an answer of ours, so its silence says nothing; a new member is not excused.

        The rules: protocol/groups.md#sessions.
        """
        return not self.is_new and (self.join is not None or self.sync is not None)

    def note_commit(self, connection: int, now_ms: int) -> None:
        """Note a commit; it renews the session."""
        self.commits += 1
        self.last_commit_ms = now_ms
        self.note_request(connection, now_ms)
        self.renew_session(now_ms)

    def vitals(self, ctx: Context) -> Vitals:
        vitals = self.evidence(self.session_timeout_ms, self.rebalance_timeout_ms, ctx)
        return replace(vitals, client_metrics=ctx.evidence.client_metrics.of(self.who))
