"""Findings of rebalances, made by hand."""

from __future__ import annotations

from kohort.insight.findings.model import MemberRef, MoveFinding, RebalanceFinding

START_MS = 1_700_000_000_000


class GroupOfFindings:
    """A group that rebalances with each call; each rebalance takes ``took_ms``."""

    def __init__(self, took_ms: int = 500) -> None:
        self.found: list[RebalanceFinding] = []
        self.members: dict[str, MemberRef] = {}
        self.now_ms = START_MS
        self._took_ms = took_ms
        self._born = 0

    def after(self, seconds: float) -> GroupOfFindings:
        self.now_ms += round(seconds * 1000)
        return self

    def comes(self, client_id: str, host: str = "/10.0.0.1", cause: str | None = None) -> str:
        """Add a member; return its id."""
        self._born += 1
        member = MemberRef(member_id=f"{client_id}-{self._born}", client_id=client_id, host=host)
        before = dict(self.members)
        self.members[member.member_id] = member
        self._rebalance(cause or ("NEW_MEMBER" if before else "GROUP_FORMING"), member, before)
        return member.member_id

    def goes(self, member_id: str, how: str = "left", cause: str = "MEMBER_LEFT") -> None:
        before = dict(self.members)
        member = self.members.pop(member_id)
        self._rebalance(cause, member, before, departures={member_id: how})

    def dies(self, member_id: str) -> None:
        self.goes(member_id, "session_expired", "SESSION_TIMEOUT.process_died")

    def rebalances(self, cause: str, *moves: tuple[int, str, str], **other: object) -> None:
        """Rebalance with the same members; ``moves``: partition, from, to."""
        moved = tuple(MoveFinding(topic="t", partition=p, before=a, after=b) for p, a, b in moves)
        member = next(iter(self.members.values()), None)
        self._rebalance(cause, member, dict(self.members), moves=moved, **other)

    def _rebalance(self, cause: str, member: MemberRef | None, before: dict[str, MemberRef], **other: object) -> None:
        generation = len(self.found) + 1
        fields: dict[str, object] = {
            "id": f"g/{generation}",
            "group": "g",
            "protocol": "classic",
            "opened_at_ms": self.now_ms,
            "end": "stable" if self.members else "empty",
            "cause": cause,
            "confidence": "proof",
            "sentence": cause,
            "evidence": (),
            "generation": generation,
            "trigger": member,
            "took_ms": self._took_ms,
            "members_before": tuple(before.values()),
            "members": tuple(self.members.values()),
        }
        self.found.append(RebalanceFinding(**(fields | other)))
