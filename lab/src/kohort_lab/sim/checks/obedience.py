"""Client check: a client reacts to error codes about its membership and its fetch session.

Most ignored errors heal after a timeout, so only the wire shows them.
"""

from __future__ import annotations

from typing import Final

from kohort.errors import ErrorCode
from kohort.wire.messages.fetch import FetchResponse
from kohort.wire.messages.group_classic import HeartbeatRequest, JoinGroupResponse
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, Watcher

CODE_OF_A_GUESS: Final = ErrorCode.INVALID_FETCH_SESSION_EPOCH
"""Error of a fetch session that a client continues although a response was lost."""


class Obedience(Watcher):
    """UNKNOWN_MEMBER_ID responses by link. ``impostor``: the client that forges requests; not checked."""

    def __init__(self, impostor: str = "") -> None:
        self._impostor = impostor
        self._unknown: set[tuple[int, str]] = set()

    def requested(self, exchange: Exchange) -> None:
        if isinstance(exchange.request, HeartbeatRequest) and exchange.client != self._impostor:
            self.check_heartbeat(exchange.client, exchange.link_id, exchange.request.member_id)

    def answered(self, exchange: Exchange) -> None:
        request, answer = exchange.request, exchange.answer
        if isinstance(request, HeartbeatRequest) and exchange.error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._unknown.add((exchange.link_id, request.member_id))
        elif isinstance(answer, JoinGroupResponse) and not answer.error_code:
            self._unknown.discard((exchange.link_id, answer.member_id))
        elif isinstance(answer, FetchResponse):
            self.check_session(exchange.client, exchange.error)

    def check_heartbeat(self, client: str, link_id: int, member_id: str) -> None:
        """Check a heartbeat; the client has read the previous response on the same link."""
        if (link_id, member_id) in self._unknown:
            raise CheckFailed(f"{client} received UNKNOWN_MEMBER_ID for {member_id}, but sends heartbeats for it")

    def check_session(self, client: str, error: ErrorCode) -> None:
        """Check that a client starts a new fetch session after a lost response (KIP-227)."""
        if error is CODE_OF_A_GUESS:
            raise CheckFailed(f"{client} continues a fetch session after a lost response: {error.name}")
