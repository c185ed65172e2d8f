"""Departed members as a watcher infers them: leave, end of the session, or removal.

Only the coordinator saw the departure. A watcher knows the last sign of life (join, commit), the timeouts, and an upper
bound of the time of the departure. A session ends no earlier than its timeout after the last sign of life: this
excludes causes, and only an exclusion makes a cause sure. All times are on the clock of the coordinator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kohort.coordinator.journal import EpochRaised, SignsOfLife, Who
from kohort.insight.epochs import EpochRebalance
from kohort.insight.evidence import AUTO_COMMIT_MS, CauseEntry, Confidence, Evidence, Finding
from kohort.insight.names import count, limit, name_and_place, name_of, seconds

DEPARTURES: Final = (
    CauseEntry(
        code="MEMBER_GONE",
        sentence="A member left, or its session ended; which of the two cannot be told from outside.",
        proof="it is not in the records of the group any more: the cluster was only watched (kohort watch)",
        look_alikes=(
            ("MEMBER_LEFT", "it committed up to the end, and was gone before its session could have ended"),
            ("SESSION_TIMEOUT", "its last sign of life was a session before"),
        ),
        advice="look at the log of that client; a kohort broker knows which it was",
    ),
)
PUT_OUT: Final = (
    "SESSION_TIMEOUT",
    "JOIN_TIMEOUT",
    "MAX_POLL_EXCEEDED",
    "STATIC_EXPIRED",
    "ADMIN_REMOVED",
    "REVOCATION_TIMEOUT",
)
"""Causes after which a running client rejoins as a new member."""
CLOCK_MS: Final = 250
"""Error of times on another clock."""
REJOIN_MS: Final = 3_000
"""Default of ``heartbeat.interval.ms``: members hear of a rebalance within it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """What a watcher knows of a departed member, which was out of the group by ``out_by_ms``.

    ``was_waited_for``: still a member while the group rebalanced; ``round_ms``: bounds of that duration; ``back``: a
    new member of the same client id and host, ``back_after_ms`` later; ``alike``: others with the same ones.
    """

    who: Who
    signs: SignsOfLife
    out_by_ms: int
    was_waited_for: bool = False
    round_ms: tuple[int | None, int | None] = (None, None)
    back: Who | None = None
    back_after_ms: int = 0
    alike: int = 0
    is_modern: bool = False
    revoking_since_ms: int | None = None
    """Start of a pending revocation (KIP-848)."""

    @property
    def sign_ms(self) -> int:
        return max(self.signs.since_ms, self.signs.last_commit_ms or self.signs.since_ms)

    @property
    def silent_ms(self) -> int:
        """Upper bound of its silence."""
        return max(0, self.out_by_ms - self.sign_ms)

    @property
    def idle_ms(self) -> int:
        """Time without commit progress, since its join at most."""
        return max(0, self.out_by_ms - max(self.signs.since_ms, self.signs.last_progress_ms or self.signs.since_ms))


def find_departure(this: Departure) -> Finding:
    """Find the cause: exclude by the silence, then choose what fits."""
    session_ms, poll_ms = this.signs.session_timeout_ms, this.signs.rebalance_timeout_ms
    if this.revoking_since_ms is not None and poll_ms is not None:
        waited_ms = this.out_by_ms - this.revoking_since_ms
        if poll_ms <= waited_ms <= poll_ms + REJOIN_MS:
            return _not_revoked(this, waited_ms, poll_ms)
    if this.was_waited_for and poll_ms is not None and _lasted(this.round_ms, poll_ms):
        return _not_rejoined(this, poll_ms)
    if session_ms is not None and _cannot_have_expired(this, session_ms):
        return _removed(this, session_ms) if this.who.instance_id is not None else _left(this, session_ms, poll_ms)
    if poll_ms is not None and _not_polled(this, poll_ms):
        return _stopped_polling(this, poll_ms)
    if session_ms is not None and _fits(this, session_ms):
        return _expired(this, session_ms)
    clause = f"member {name_and_place(this.who)} is gone: it left, or its session ended, which look the same from here"
    return Finding("MEMBER_GONE", "low", clause, _facts(this))


def _lasted(round_ms: tuple[int | None, int | None], timeout_ms: int) -> bool:
    """Tell whether a round may have lasted a timeout, and was seen for two thirds of it."""
    shortest, longest = round_ms
    return longest is not None and longest >= timeout_ms and shortest is not None and shortest >= timeout_ms * 2 // 3


def _not_polled(this: Departure, poll_ms: int) -> bool:
    """Tell whether the silence fits a missed poll, and the client returned."""
    # aiokafka sends its session timeout as both: then an end of the session explains as much.
    if this.back is None or poll_ms <= (this.signs.session_timeout_ms or 0) or this.signs.last_commit_ms is None:
        return False
    return poll_ms - min(AUTO_COMMIT_MS, poll_ms // 4) <= this.silent_ms <= poll_ms + AUTO_COMMIT_MS + REJOIN_MS


def _cannot_have_expired(this: Departure, session_ms: int) -> bool:
    """Tell whether the session cannot have ended yet. Each request restarts it; a commit only in classic groups, not
    in a transaction. But a committing client also sends heartbeats, each third of a session."""
    if this.out_by_ms - this.signs.since_ms < session_ms - min(CLOCK_MS, session_ms // 10):
        return True
    return this.signs.last_commit_ms is not None and this.silent_ms < session_ms * 2 // 3


def _fits(this: Departure, session_ms: int) -> bool:
    """Tell whether the departure fits the end of the session, of a committing or a static member."""
    if this.signs.last_commit_ms is None and this.who.instance_id is None:
        return False
    if this.silent_ms < session_ms - min(CLOCK_MS, session_ms // 10) and not this.is_modern:
        return False  # only if it commits in transactions, which cannot be seen; else it left
    return this.silent_ms <= session_ms + AUTO_COMMIT_MS + REJOIN_MS


def _left(this: Departure, session_ms: int, poll_ms: int | None) -> Finding:
    confidence: Confidence = "high"
    unseen = Evidence("unknown", "whether it left by itself or somebody removed it; requests are not seen from outside")
    if poll_ms is not None and this.idle_ms >= poll_ms - min(AUTO_COMMIT_MS, poll_ms // 4):
        confidence = "medium"
        what = f"whether it left since its user did not poll: no commit moved forward for {seconds(this.idle_ms)}"
        unseen = Evidence("unknown", f"{what}, its limit is {limit(poll_ms)} after a poll")
    clause = f"member {name_and_place(this.who)} left the group"
    if this.back is not None and this.back_after_ms <= max(session_ms, REJOIN_MS):
        confidence = "medium"
        clause += f", and {name_of(this.back)} came from the same client: a restart, or a client that began anew"
    return Finding("MEMBER_LEFT", confidence, clause, (*_facts(this), _excluded(this, session_ms), unseen))


def _removed(this: Departure, session_ms: int) -> Finding:
    clause = (
        f"static member {name_and_place(this.who)} was taken out before its session can have ended: somebody removed "
        "it, or it was told to leave for good"
    )
    unseen = Evidence("unknown", "who sent the request; requests are not seen from outside")
    return Finding("ADMIN_REMOVED", "medium", clause, (*_facts(this), _excluded(this, session_ms), unseen))


def _excluded(this: Departure, session_ms: int) -> Evidence:
    return Evidence(
        "not_expired",
        f"out of the group at most {seconds(this.silent_ms)} after its last sign of life, and its session timeout is "
        f"{limit(session_ms)}",
        this.out_by_ms,
    )


def _expired(this: Departure, session_ms: int) -> Finding:
    seen = this.signs.last_commit_ms is not None
    unseen = Evidence("unknown", "whether it left at that very time; requests are not seen from outside")
    fits = Evidence(
        "fits_session_timeout",
        f"out of the group at most {seconds(this.silent_ms)} after its last sign of life; its session timeout is "
        f"{limit(session_ms)}",
        this.out_by_ms,
    )
    cause = "SESSION_TIMEOUT" if this.who.instance_id is None else "STATIC_EXPIRED"
    clause = (
        f"member {name_and_place(this.who)} was silent and probably expired (session timeout {limit(session_ms)}, last "
        f"{'commit' if seen else 'sign of life'} {seconds(this.silent_ms)} before it was out)"
    )
    return Finding(cause, "medium" if seen else "low", clause, (*_facts(this), fits, unseen))


def _stopped_polling(this: Departure, poll_ms: int) -> Finding:
    back = this.back or this.who
    confidence: Confidence = "low" if this.alike else "medium"
    came = Evidence("came_back", f"{name_of(back)} has its client id and host{_alike(this)}", this.out_by_ms)
    clause = (
        f"member {name_and_place(this.who)} probably did not poll within max.poll.interval.ms: no commit of it for "
        f"{seconds(this.silent_ms)} (its limit is {limit(poll_ms)} after a poll), then it came back as {name_of(back)}"
    )
    return Finding("MAX_POLL_EXCEEDED", confidence, clause, (*_facts(this), came))


def _not_rejoined(this: Departure, poll_ms: int) -> Finding:
    shortest, longest = this.round_ms
    took = Evidence(
        "round",
        f"between {seconds(shortest or 0)} and {seconds(longest or 0)}; its rebalance timeout is {limit(poll_ms)}",
        this.out_by_ms,
    )
    there = Evidence("was_a_member", "still a member while the group rebalanced")
    clause = f"member {name_and_place(this.who)} did not join again within its rebalance timeout of {limit(poll_ms)}"
    return Finding("JOIN_TIMEOUT", "medium", clause, (*_facts(this), there, took))


def _not_revoked(this: Departure, waited_ms: int, poll_ms: int) -> Finding:
    told = Evidence("told_to_revoke", f"{seconds(waited_ms)} before it was out", this.revoking_since_ms)
    clause = (
        f"member {name_and_place(this.who)} did not give up what it was told to within its rebalance timeout of "
        f"{limit(poll_ms)}, and was put out"
    )
    return Finding("REVOCATION_TIMEOUT", "medium", clause, (*_facts(this), told))


def _alike(this: Departure) -> str:
    return f", as have {this.alike} others" if this.alike else ""


def _facts(this: Departure) -> tuple[Evidence, ...]:
    signs, name = this.signs, name_of(this.who)
    facts = [Evidence("gone", f"{name} is not in the group any more", this.out_by_ms)]
    if signs.last_commit_ms is None:
        facts.append(Evidence("last_commit", "none was seen of it since it joined, or came nearer to its target"))
    else:
        facts.append(
            Evidence(
                "last_commit",
                f"{seconds(this.out_by_ms - signs.last_commit_ms)} before that or less",
                signs.last_commit_ms,
            )
        )
        if signs.last_progress_ms is not None and signs.last_progress_ms != signs.last_commit_ms:
            facts.append(
                Evidence(
                    "last_progress",
                    seconds(this.out_by_ms - signs.last_progress_ms) + " before that",
                    signs.last_progress_ms,
                )
            )
    return tuple(facts)


def find_gone(this: EpochRebalance, raised: EpochRaised) -> Finding:
    """Infer the cause of a departure from a consumer group, whose records end alike for a leave and a removal."""
    cause, first = raised.cause, raised is this.raises[0]
    if cause.who is None:  # a journal that was not written so
        return Finding("MEMBER_GONE", "low", "a member is gone", (Evidence("gone", "a member", raised.at_ms),))
    signs = cause.signs or SignsOfLife(member_id=cause.who.member_id, since_ms=raised.at_ms)
    back, back_at_ms = this.back.get(cause.who.member_id, (None, raised.at_ms))
    departure = Departure(
        who=cause.who,
        signs=signs,
        out_by_ms=raised.at_ms,
        back=back,
        back_after_ms=back_at_ms - raised.at_ms,
        is_modern=True,
        revoking_since_ms=this.revoking_since_ms if first else None,
    )
    found = find_departure(departure)
    if not cause.others:
        return found
    return Finding(
        found.cause, found.confidence, f"{found.clause}, with {count(len(cause.others), 'other')}", found.evidence
    )
