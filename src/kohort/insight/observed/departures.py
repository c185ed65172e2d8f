"""Inferred departures of members: leave, expired session, or removal.

Only the coordinator sees a departure. A watcher knows the member's last sign of life (join, commit), its timeouts, and
the latest possible time of its departure. A session expires no earlier than its timeout after the last sign of life.
This excludes some causes; a cause is certain only if all others are excluded. All times are on the coordinator's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from kohort.coordinator.journal import ClientIdentity, EpochRaised, SignsOfLife
from kohort.insight.epochs import EpochRebalance
from kohort.insight.evidence import AUTO_COMMIT_MS, CauseEntry, Confidence, Evidence, Finding
from kohort.insight.names import count, limit, name_and_place, name_of, seconds
from kohort.insight.rebalances import FAILOVER_MS

DEPARTURES: Final = (
    CauseEntry(
        code="MEMBER_DEPARTED",
        sentence="A member left, or its session expired; a watcher cannot distinguish the two.",
        proof="the records of the group no longer contain the member: the cluster was only watched (kohort watch)",
        look_alikes=(
            (
                "MEMBER_LEFT",
                "the member committed until shortly before its departure, so its session cannot have expired",
            ),
            ("SESSION_TIMEOUT", "the member's last sign of life was one session timeout earlier"),
        ),
        advice="read the log of that client; a kohort broker knows the reason",
    ),
)
REMOVALS: Final = (
    "SESSION_TIMEOUT",
    "JOIN_TIMEOUT",
    "MAX_POLL_EXCEEDED",
    "STATIC_EXPIRED",
    "ADMIN_REMOVED",
    "REVOCATION_TIMEOUT",
)
"""Causes of removals after which a client that still runs rejoins as a new member."""
LOST_IN_FAILOVER: Final = (
    "MEMBER_DEPARTED",
    "SESSION_TIMEOUT",
    "STATIC_EXPIRED",
    "MAX_POLL_EXCEEDED",
    "JOIN_TIMEOUT",
    "REVOCATION_TIMEOUT",
)
"""Causes of departures that a failover of the coordinator explains if the member sent no request since."""
CLOCK_MS: Final = 250
"""Largest assumed error of a time that was measured on another machine's clock, in ms."""
CONSUMER_HEARTBEAT_MS: Final = 5_000
"""Default of ``group.consumer.heartbeat.interval.ms``."""
REJOIN_MS: Final = 3_000
"""Default of ``heartbeat.interval.ms``: longest time until a member notices a rebalance, in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """Observations about a member that departed from its group no later than ``out_by_ms``.

    ``was_waited_for``: the member still belonged to the group during the rebalance. ``round_ms``: bounds of the
    duration of the rebalance. ``back``: new member with the same client id and host, which joined ``back_after_ms``
    after the departure. ``alike``: number of other members with this client id and host.
    """

    member: ClientIdentity
    signs: SignsOfLife
    out_by_ms: int
    was_waited_for: bool = False
    round_ms: tuple[int | None, int | None] = (None, None)
    back: ClientIdentity | None = None
    back_after_ms: int = 0
    alike: int = 0
    is_consumer: bool = False
    revoking_since_ms: int | None = None

    @property
    def name(self) -> str:
        return name_and_place(self.member)

    @property
    def sign_ms(self) -> int:
        return max(self.signs.since_ms, self.signs.last_commit_ms or self.signs.since_ms)

    @property
    def was_replaced(self) -> bool:
        """True if the client joined again while the departed member still belonged to the group.

        A member that leaves in order leaves before its client joins again.
        """
        return self.was_waited_for and self.back is not None and not self.back_after_ms and not self.alike

    @property
    def is_after_failover(self) -> bool:
        """True if the member sent no request since a recent failover or outage of the coordinator."""
        at_ms = self.signs.failover_ms
        if at_ms is None or self.sign_ms >= at_ms:
            return False
        return self.out_by_ms - FAILOVER_MS <= at_ms <= self.out_by_ms

    @property
    def silent_ms(self) -> int:
        """Upper bound of the time from the last commit or join of a departed member to its departure, in ms."""
        return max(0, self.out_by_ms - self.sign_ms)

    @property
    def idle_ms(self) -> int:
        """Upper bound of the time from the last commit progress of a departed member to its departure, in ms."""
        return max(0, self.out_by_ms - max(self.signs.since_ms, self.signs.last_progress_ms or self.signs.since_ms))


def find_departure(departure: Departure) -> Finding:
    """Return the likeliest cause of a member's departure from a watched group.

    Causes that contradict the member's commits or timeouts are excluded first. If two causes remain, the finding names
    both, with low confidence.
    """
    session_ms, poll_ms = departure.signs.session_timeout_ms, departure.signs.rebalance_timeout_ms
    if departure.revoking_since_ms is not None and poll_ms is not None:
        waited_ms = departure.out_by_ms - departure.revoking_since_ms
        if poll_ms <= waited_ms <= poll_ms + REJOIN_MS:
            return _not_revoked(departure, waited_ms, poll_ms)
    if departure.was_waited_for and poll_ms is not None and _may_have_lasted(departure.round_ms, poll_ms):
        return _not_rejoined(departure, poll_ms)
    stopped = None
    if poll_ms is not None and _matches_missed_poll(departure, poll_ms):
        stopped = _stopped_polling(departure, poll_ms)
    if session_ms is not None and _cannot_have_expired(departure, session_ms):
        return _before_expiry(departure, session_ms, poll_ms, stopped)
    if session_ms is None or not _matches_expiry(departure, session_ms):
        return stopped or _unknown(departure)
    expired = _expired(departure, session_ms)
    if stopped is None or poll_ms is None:
        return expired
    silent_ms = departure.silent_ms
    if abs(silent_ms - poll_ms) < abs(silent_ms - session_ms):
        return _either(stopped, expired, f"or its session expired (session timeout {limit(session_ms)})")
    return _either(expired, stopped, f"or it did not poll within max.poll.interval.ms ({limit(poll_ms)})")


def _before_expiry(departure: Departure, session_ms: int, poll_ms: int | None, stopped: Finding | None) -> Finding:
    """Return the cause of a departure before the session can have expired, as far as commits show."""
    is_late = _may_have_late_heartbeat(departure, session_ms)
    if departure.member.instance_id is not None:
        removed = _removed(departure, session_ms)
        return _either(_expired(departure, session_ms), removed, "or was removed") if is_late else removed
    left = _left(departure, session_ms, poll_ms)
    if stopped is not None:
        return _either(stopped, left, "or its process restarted")
    if not is_late:
        return left
    return _either(
        left, _expired(departure, session_ms), f"or its session expired (session timeout {limit(session_ms)})"
    )


def _either(likelier: Finding, other: Finding, text: str) -> Finding:
    facts = tuple(dict.fromkeys((*likelier.evidence, *other.evidence)))
    return Finding(likelier.cause, "low", f"{likelier.clause}, {text}", facts, (other.cause,))


def _unknown(departure: Departure) -> Finding:
    clause = f"member {departure.name} left, or its session expired (indistinguishable for a watcher)"
    return Finding("MEMBER_DEPARTED", "low", clause, _facts(departure))


def _may_have_lasted(round_ms: tuple[int | None, int | None], timeout_ms: int) -> bool:
    shortest, longest = round_ms
    return longest is not None and longest >= timeout_ms and shortest is not None and shortest >= timeout_ms * 2 // 3


def _matches_missed_poll(departure: Departure, poll_ms: int) -> bool:
    """Return True if the silence of a member that returned is about one poll interval.

    A static member does not leave after a missed poll, but stops its heartbeats: its session expires later.
    """
    session_ms = departure.signs.session_timeout_ms
    # aiokafka uses one timeout for sessions and polls: the member may have missed heartbeats or a poll
    if departure.back is None or poll_ms == session_ms or departure.signs.last_commit_ms is None:
        return False
    if departure.member.instance_id is not None and session_ms is None:
        return False
    silent_ms = departure.silent_ms - (session_ms or 0 if departure.member.instance_id is not None else 0)
    return poll_ms - min(AUTO_COMMIT_MS, poll_ms // 4) <= silent_ms <= poll_ms + AUTO_COMMIT_MS + REJOIN_MS


def _cannot_have_expired(departure: Departure, session_ms: int) -> bool:
    """Return True if the member departed before its session could expire.

    Requests restart the session timer; commits restart it only in a classic group and outside of transactions. But a
    client that commits also sends a heartbeat every third of its session timeout.
    """
    if departure.out_by_ms - departure.signs.since_ms < session_ms - min(CLOCK_MS, session_ms // 10):
        return True
    return departure.signs.last_commit_ms is not None and departure.silent_ms < session_ms * 2 // 3


def _may_have_late_heartbeat(departure: Departure, session_ms: int) -> bool:
    """Return True if the member of a consumer group committed after the last heartbeat of an expired session.

    A commit does not renew the session in a consumer group, and the heartbeat interval is an option of the broker.
    """
    if not departure.is_consumer or departure.out_by_ms - departure.signs.since_ms < session_ms - CLOCK_MS:
        return False
    return departure.silent_ms >= session_ms - CONSUMER_HEARTBEAT_MS - CLOCK_MS


def _matches_expiry(departure: Departure, session_ms: int) -> bool:
    if departure.was_replaced:
        return True
    if departure.signs.last_commit_ms is None and departure.member.instance_id is None:
        return False
    if departure.silent_ms < session_ms - min(CLOCK_MS, session_ms // 10) and not departure.is_consumer:
        return False  # a session does not expire before the session timeout has passed without a request
    return departure.silent_ms <= session_ms + AUTO_COMMIT_MS + REJOIN_MS


def _left(departure: Departure, session_ms: int, poll_ms: int | None) -> Finding:
    confidence: Confidence = "high"
    unseen = Evidence("unknown", "possibly removed by another client: a watcher sees no requests")
    is_idle = poll_ms is not None and departure.idle_ms >= poll_ms - min(AUTO_COMMIT_MS, poll_ms // 4)
    if is_idle and poll_ms is not None:
        confidence = "medium"
        what = f"possibly a missed poll: no commit progress for {seconds(departure.idle_ms)}"
        unseen = Evidence("unknown", f"{what}, its limit is {limit(poll_ms)} between polls")
    clause = f"member {departure.name} left the group"
    if departure.back is not None and departure.back_after_ms <= max(session_ms, REJOIN_MS):
        confidence = "medium"
        clause += f", and {name_of(departure.back)} joined from the same client: a restart, or a rejoin"
    evidence = (*_facts(departure), _session_fact("not_expired", departure, session_ms), unseen)
    if departure.back is not None and is_idle:
        return Finding("MEMBER_LEFT", "low", clause, evidence, ("MAX_POLL_EXCEEDED",))
    return Finding("MEMBER_LEFT", confidence, clause, evidence)


def _removed(departure: Departure, session_ms: int) -> Finding:
    clause = (
        f"static member {departure.name} was removed before its session can have expired: by an "
        "administrator, or by its own permanent leave"
    )
    unseen = Evidence("unknown", "the client that sent the request: a watcher sees no requests")
    evidence = (*_facts(departure), _session_fact("not_expired", departure, session_ms), unseen)
    return Finding("ADMIN_REMOVED", "medium", clause, evidence)


def _session_fact(kind: str, departure: Departure, session_ms: int) -> Evidence:
    return Evidence(
        kind,
        f"departed at most {seconds(departure.silent_ms)} after its last sign of life; its session timeout is "
        f"{limit(session_ms)}",
        departure.out_by_ms,
    )


def _expired(departure: Departure, session_ms: int) -> Finding:
    seen = departure.signs.last_commit_ms is not None or departure.was_replaced
    unseen = Evidence("unknown", "possibly a leave at the same time: a watcher sees no requests")
    if departure.was_replaced and departure.back is not None:
        unseen = Evidence("replaced", f"{name_of(departure.back)} of the same client joined before the departure")
    fits = _session_fact("fits_session_timeout", departure, session_ms)
    last = "sign of life" if departure.signs.last_commit_ms is None else "commit"
    cause = "SESSION_TIMEOUT" if departure.member.instance_id is None else "STATIC_EXPIRED"
    clause = (
        f"member {departure.name} was silent and probably expired "
        f"(session timeout {limit(session_ms)}, last {last} "
        f"{seconds(departure.silent_ms)} before its departure)"
    )
    return Finding(cause, "medium" if seen else "low", clause, (*_facts(departure), fits, unseen))


def _stopped_polling(departure: Departure, poll_ms: int) -> Finding:
    back = departure.back or departure.member
    confidence: Confidence = "low" if departure.alike else "medium"
    others = f", shared by {count(departure.alike, 'other member')}" if departure.alike else ""
    came = Evidence("came_back", f"{name_of(back)} has its client id and host{others}", departure.out_by_ms)
    clause = (
        f"member {departure.name} probably did not poll within max.poll.interval.ms: no commit for "
        f"{seconds(departure.silent_ms)} (its limit is {limit(poll_ms)} between polls), then it rejoined as "
        f"{name_of(back)}"
    )
    return Finding("MAX_POLL_EXCEEDED", confidence, clause, (*_facts(departure), came))


def _not_rejoined(departure: Departure, poll_ms: int) -> Finding:
    shortest, longest = departure.round_ms
    took = Evidence(
        "round",
        f"between {seconds(shortest or 0)} and {seconds(longest or 0)}; its rebalance timeout is {limit(poll_ms)}",
        departure.out_by_ms,
    )
    there = Evidence("was_a_member", "still a member while the group rebalanced")
    clause = f"member {departure.name} did not rejoin within its rebalance timeout of {limit(poll_ms)}"
    return Finding("JOIN_TIMEOUT", "medium", clause, (*_facts(departure), there, took))


def _not_revoked(departure: Departure, waited_ms: int, poll_ms: int) -> Finding:
    fact = Evidence("must_revoke", f"{seconds(waited_ms)} before its departure", departure.revoking_since_ms)
    clause = (
        f"member {departure.name} did not revoke its partitions within its rebalance timeout of "
        f"{limit(poll_ms)}, and was removed"
    )
    return Finding("REVOCATION_TIMEOUT", "medium", clause, (*_facts(departure), fact))


def _facts(departure: Departure) -> tuple[Evidence, ...]:
    signs, name = departure.signs, name_of(departure.member)
    facts = [Evidence("departed", f"{name} is no longer in the group", departure.out_by_ms)]
    if signs.last_commit_ms is None:
        facts.append(Evidence("last_commit", "none since its join, or since its last progress to the target"))
    else:
        facts.append(
            Evidence(
                "last_commit",
                f"{seconds(departure.out_by_ms - signs.last_commit_ms)} before that or less",
                signs.last_commit_ms,
            )
        )
        if signs.last_progress_ms is not None and signs.last_progress_ms != signs.last_commit_ms:
            facts.append(
                Evidence(
                    "last_progress",
                    seconds(departure.out_by_ms - signs.last_progress_ms) + " before that",
                    signs.last_progress_ms,
                )
            )
    return tuple(facts)


def find_raised_departure(rebalance: EpochRebalance, raised: EpochRaised) -> Finding:
    """Return the inferred cause of a member's departure from a consumer group.

    The records of a leave are the same as those of a removal by an administrator.
    """
    cause, first = raised.cause, raised is rebalance.raises[0]
    if cause.member is None:  # journal entries of older kohort versions do not name the departed member
        return Finding("MEMBER_DEPARTED", "low", "a member departed", (Evidence("departed", "a member", raised.at_ms),))
    signs = cause.signs or SignsOfLife(member_id=cause.member.member_id, since_ms=raised.at_ms)
    back, back_at_ms = rebalance.back.get(cause.member.member_id, (None, raised.at_ms))
    departure = Departure(
        member=cause.member,
        signs=signs,
        out_by_ms=raised.at_ms,
        back=back,
        back_after_ms=back_at_ms - raised.at_ms,
        is_consumer=True,
        revoking_since_ms=rebalance.revoking_since_ms if first else None,
    )
    found = find_departure(departure)
    if cause.others:
        found = replace(found, clause=f"{found.clause}, with {count(len(cause.others), 'other')}")
    if departure.is_after_failover and found.cause in LOST_IN_FAILOVER:
        return _lost_in_failover(departure, found)
    return found


def _lost_in_failover(departure: Departure, found: Finding) -> Finding:
    at_ms = departure.signs.failover_ms or departure.out_by_ms
    ago = seconds(departure.out_by_ms - at_ms)
    fact = Evidence("coordinator_moved", "the coordinator restarted, moved, or was unreachable until then", at_ms)
    clause = (
        f"the group's coordinator moved or restarted {ago} before, and a member did not return in time: {found.clause}"
    )
    return Finding("COORDINATOR_FAILOVER", "medium", clause, (fact, *found.evidence), (found.cause, *found.also))
