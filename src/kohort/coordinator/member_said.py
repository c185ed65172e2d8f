"""What clients pushed of themselves (KIP-714), remembered for the journal alone: nothing is decided on it.

A member is who names its id, or comes from its host under its client id, so nobody speaks for a member elsewhere.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kohort.coordinator.journal_base import Who
from kohort.coordinator.memorable_names import are_memorable

MEMBERS: Final = 10_000
SAME_MS: Final = 300_000
"""Two clients that name no member, and push within this time from one host under one client id, cannot be told
apart."""


class MemberSaid(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the client of a member pushed last; null is what its library does not measure."""

    at_ms: int
    last_poll_ms_ago: int | None = None
    """How long ago its user had polled, then."""
    longest_poll_gap_ms: int | None = None
    """The longest time between two polls, of those that it remembers."""
    poll_idle_ratio: float | None = None
    """The part of its time that its user waited for records."""
    commit_latency_ms: float | None = None
    rebalance_latency_ms: float | None = None
    """How long its rebalances take: the longest that it remembers."""


class SaidByMembers:
    """The last words of the latest few thousand members."""

    def __init__(self, limit: int = MEMBERS) -> None:
        self._said: dict[tuple[str, str, str], tuple[str, MemberSaid | None]] = {}
        self._limit = limit

    def add(self, client_instance_id: str, who: Who, said: MemberSaid) -> None:
        """Remember what a client said; ``who`` has no member id where it named none."""
        key = who.client_id, who.client_host, who.member_id
        if not are_memorable(*key):
            return
        other, before = self._said.pop(key, ("", None))
        is_one = other in ("", client_instance_id) or (before is not None and said.at_ms - before.at_ms > SAME_MS)
        self._said[key] = client_instance_id, said if is_one or who.member_id else None
        if len(self._said) > self._limit:
            del self._said[next(iter(self._said))]

    def of(self, who: Who) -> MemberSaid | None:
        """Return what a member said last, if it is known."""
        for member_id in (who.member_id, ""):
            _, said = self._said.get((who.client_id, who.client_host, member_id), ("", None))
            if said is not None:
                return said
        return None
