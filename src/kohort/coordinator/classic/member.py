"""Member of a classic group: protocols, timeouts, session, and its unanswered JoinGroup and SyncGroup.

The rules: protocol/groups.md#members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from kohort.coordinator.context import Context
from kohort.coordinator.journal import ClientIdentity, Vitals
from kohort.coordinator.outcome import GroupRequest

NEW_MEMBER_TIMEOUT_MS: Final = 300_000
"""Session timeout in ms of a new member before its first generation (protocol/groups.md#new-members)."""


Protocols = tuple[tuple[str, bytes], ...]


@dataclass(slots=True, kw_only=True)
class Presence:
    """Session of a member (classic or consumer protocol), with times and counts for the journal. Never persisted."""

    expires_at_ms: int
    """Time in ms at which the session ends.

    A heartbeat moves it to a later time, but does not set the session timer.
    """
    last_seen_ms: int
    connection: int = -1
    longest_gap_ms: int = 0
    commits: int = 0
    last_progress_ms: int | None = None
    last_commit_ms: int | None = None

    def note_request(self, connection: int, now_ms: int) -> None:
        gap_ms = now_ms - self.last_seen_ms
        if gap_ms > self.longest_gap_ms:  # each request runs this line, and max() is slower
            self.longest_gap_ms = gap_ms
        self.last_seen_ms = now_ms
        self.connection = connection

    def evidence(self, session_timeout_ms: int, rebalance_timeout_ms: int, ctx: Context) -> Vitals:
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
    """Member of a classic group, with at most one unanswered JoinGroup and at most one unanswered SyncGroup."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """True from a new member's first JoinGroup until the join phase ends.

    Until then its session timeout is five minutes.
    """
    join: GroupRequest | None = None
    sync: GroupRequest | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def identity(self) -> ClientIdentity:
        return ClientIdentity(self.member_id, self.client_id, self.client_host, self.instance_id)

    def metadata_of(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def renew_session(self, now_ms: int) -> None:
        """Move the end of the session to one session timeout from now.

        The session timer is set again only when it fires.
        """
        self.expires_at_ms = now_ms + (NEW_MEMBER_TIMEOUT_MS if self.is_new else self.session_timeout_ms)

    @property
    def is_excused(self) -> bool:
        """Return True while the session cannot expire, because a JoinGroup or SyncGroup of the member is unanswered.

        The session of a new member can expire during its first JoinGroup.
        """
        return not self.is_new and (self.join is not None or self.sync is not None)

    def note_commit(self, connection: int, now_ms: int) -> None:
        self.commits += 1
        self.last_commit_ms = now_ms
        self.note_request(connection, now_ms)
        self.renew_session(now_ms)

    def vitals(self, ctx: Context) -> Vitals:
        vitals = self.evidence(self.session_timeout_ms, self.rebalance_timeout_ms, ctx)
        return replace(vitals, client_metrics=ctx.evidence.client_metrics.of(self.identity))
