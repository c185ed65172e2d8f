"""A client acts on what the broker told it: that it is no member any more, or what its fetch session holds.

Most of what a client ignores heals itself a timeout later, so only the wire shows it.
"""

from __future__ import annotations

from typing import Final

from kohort.errors import ErrorCode
from kohort.wire.messages.fetch import FetchResponse
from kohort.wire.messages.group_classic import HeartbeatRequest, JoinGroupResponse
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, Watcher

CODE_OF_A_GUESS: Final = ErrorCode.INVALID_FETCH_SESSION_EPOCH
"""What a broker says to a client that goes on with a fetch session though it cannot know how far the broker is."""


class Obedience(Watcher):
    """Who was told on which link that it is not a member (any more). ``impostor``: whoever speaks for others heeds
    nothing."""

    def __init__(self, impostor: str = "") -> None:
        self._impostor = impostor
        self._unknown: set[tuple[int, str]] = set()

    def asked(self, exchange: Exchange) -> None:
        if isinstance(exchange.asked, HeartbeatRequest) and exchange.client != self._impostor:
            self.check_heartbeat(exchange.client, exchange.link_id, exchange.asked.member_id)

    def answered(self, exchange: Exchange) -> None:
        asked, answer = exchange.asked, exchange.answer
        if isinstance(asked, HeartbeatRequest) and exchange.error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._unknown.add((exchange.link_id, asked.member_id))
        elif isinstance(answer, JoinGroupResponse) and not answer.error_code:
            self._unknown.discard((exchange.link_id, answer.member_id))
        elif isinstance(answer, FetchResponse):
            self.check_session(exchange.client, exchange.error)

    def check_heartbeat(self, client: str, link_id: int, member_id: str) -> None:
        """One heartbeat at a time: the answer to the one before has been read, as both are on one link."""
        if (link_id, member_id) in self._unknown:
            raise CheckFailed(f"{client} was told that {member_id} is not known, and sends heartbeats for it")

    def check_session(self, client: str, error: ErrorCode) -> None:
        """Check that a client begins a new session after an answer that was lost (KIP-227)."""
        if error is CODE_OF_A_GUESS:
            raise CheckFailed(f"{client} goes on with a fetch session that it has lost track of: {error.name}")
