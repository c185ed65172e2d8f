"""Rebalances caused by expired sessions: the member was dead, frozen, starved or unreachable, or the broker stalled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.coordinator.journal import ClientIdentity, Vitals
from kohort.insight.causes.leaving import client_reports, idle_ms_of, last_progress, reported_poll
from kohort.insight.epochs import EpochRebalance
from kohort.insight.evidence import AUTO_COMMIT_MS, Beginning, CauseEntry, Confidence, Evidence, Finding
from kohort.insight.names import count, limit, name_and_place, name_of, seconds
from kohort.insight.rebalances import Rebalance

_EXPIRED: Final = "Preparing to rebalance group ... (reason: removing member ... on heartbeat expiration)"

SILENCE: Final = (
    CauseEntry(
        code="SESSION_TIMEOUT",
        sentence="A member's session expired; the journal lacks the member's last signs of life.",
        proof="only the session timer: the coordinator had just loaded the group, or the cluster was only watched",
        advice="check that the member's process, host and network are up",
        kafka_log=_EXPIRED,
    ),
    CauseEntry(
        code="SESSION_TIMEOUT.process_died",
        sentence="A process ended without leaving: its connection closed, and no heartbeat came within the session.",
        proof="the session timer, and before it the end of the connection that sent the last request",
        look_alikes=(("SESSION_TIMEOUT.unreachable", "the connection is open as far as the broker knows"),),
        advice="find the reason why the process ended; a closed consumer leaves at once instead",
        kafka_log=_EXPIRED,
    ),
    CauseEntry(
        code="SESSION_TIMEOUT.frozen",
        sentence="A member stalled for longer than its session timeout, and returned.",
        proof="the session timer, an open connection, and a later request of the member or join of the same client",
        look_alikes=(
            ("SESSION_TIMEOUT.unreachable", "the member has not returned so far"),
            ("BROKER_STALL", "the broker itself stalled"),
        ),
        advice="look for long pauses (garbage collector, swap, suspension), or raise session.timeout.ms",
        kafka_log=_EXPIRED,
    ),
    CauseEntry(
        code="SESSION_TIMEOUT.starved",
        sentence="A member's heartbeats came later and later until its session expired: it lacks CPU time.",
        proof="the session timer, and an earlier silence of more than half a session timeout",
        look_alikes=(("SESSION_TIMEOUT.frozen", "the member's heartbeats were punctual until they stopped"),),
        advice="give the member's process more CPU time, or raise session.timeout.ms",
        kafka_log=_EXPIRED,
    ),
    CauseEntry(
        code="SESSION_TIMEOUT.unreachable",
        sentence="A member's session expired while its connection was open: its host or the network failed.",
        proof="the session timer; the connection did not close, and no request came since",
        look_alikes=(
            ("SESSION_TIMEOUT.process_died", "the member's connection closed"),
            ("SESSION_TIMEOUT.frozen", "the member returned; until then both causes look the same"),
        ),
        advice="check the member's host, and the network between host and broker",
        kafka_log=_EXPIRED,
    ),
    CauseEntry(
        code="BROKER_STALL",
        sentence="The broker stalled and received no heartbeats, so sessions expired.",
        proof="the broker's own clock: without its stall, the member's silence is shorter than its session timeout",
        look_alikes=(
            ("SESSION_TIMEOUT.unreachable", "the broker did not stall"),
            ("SESSION_TIMEOUT.process_died", "the connection closed before the broker stalled"),
        ),
        advice="the members are not the cause: check the broker's host (CPU, swap, suspension, disk), run other work "
        "outside of the process of an embedded broker",
        kafka_log=_EXPIRED,
    ),
    CauseEntry(
        code="STATIC_EXPIRED",
        sentence="A static member did not return within its session timeout.",
        proof="the session timer of a member with an instance id",
        look_alikes=(("SESSION_TIMEOUT", "a member without an instance id"),),
        advice="the member's partitions had no owner until the expiry: raise session.timeout.ms above its restart time",
        kafka_log=_EXPIRED,
    ),
)


def expired_without_vitals(begin: Beginning) -> Finding:
    """Explain a session that expired after a failover. The new coordinator has no heartbeat history of the member."""
    clause = f"{begin.member_text} sent no heartbeat until its session expired"
    return Finding("SESSION_TIMEOUT", "low", clause, (begin.fact("timer", "session timeout"),))


def find_expiry_in(rebalance: Rebalance, member: ClientIdentity, vitals: Vitals, expired_at_ms: int) -> Finding:
    """Explain an expired session; the cause is unknown if the member sent no request after a coordinator failover."""
    loaded = rebalance.recent_load
    if loaded is None or vitals.last_seen_ms > loaded.at_ms or member.instance_id is not None:
        return find_expiry(member, vitals, expired_at_ms, rebalance)
    since = seconds(expired_at_ms - loaded.at_ms)
    fact = Evidence("group_loaded", f"at generation {loaded.generation}, {since} before", loaded.at_ms)
    clause = (
        f"member {name_and_place(member)} sent no heartbeat in the {since} since its coordinator loaded the group, and "
        f"its session expired ({limit(vitals.session_timeout_ms)})"
    )
    return Finding("SESSION_TIMEOUT", "low", clause, (fact,))


def find_expiry(
    member: ClientIdentity, vitals: Vitals, expired_at_ms: int, after: Rebalance | EpochRebalance
) -> Finding:
    """Return the cause of an expired session, such as a dead, frozen or starved member, or a stalled broker."""
    silent_ms = expired_at_ms - vitals.last_seen_ms
    closed_at_ms = vitals.connection_closed_at_ms
    back = next((f for f in after.fenced if f.member.member_id == member.member_id), None)
    rejoined = after.back.get(member.member_id)
    detail = f"session timeout {limit(vitals.session_timeout_ms)}; "
    evidence = [
        Evidence("last_request", f"{seconds(silent_ms)} before the expiry", vitals.last_seen_ms),
        Evidence("session_timeout", limit(vitals.session_timeout_ms)),
        Evidence("longest_gap", seconds(vitals.longest_gap_ms)),
        *client_reports(vitals, expired_at_ms),
    ]
    confidence: Confidence = "high"
    missed_poll = _find_silent_missed_poll(member, vitals, expired_at_ms, evidence, after.last_assigned_ms(member))
    if missed_poll is not None:
        return missed_poll
    if vitals.stalled_ms:
        evidence.append(
            Evidence("broker_stalled", f"for {seconds(vitals.stalled_ms)} of this time", vitals.stalled_at_ms)
        )
        if _is_broker_stall(vitals, silent_ms):
            clause = (
                f"the broker stalled for {seconds(vitals.stalled_ms)}, and then expired the session of member"
                f" {name_and_place(member)}, whose heartbeats it could not receive"
            )
            heard = silent_ms - vitals.stalled_ms <= max(vitals.longest_gap_ms, vitals.session_timeout_ms // 3)
            return Finding("BROKER_STALL", "proof" if heard else "high", clause, tuple(evidence))
        confidence = "medium"
    if closed_at_ms is not None:
        ago = seconds(expired_at_ms - closed_at_ms)
        evidence.append(Evidence("connection_closed", f"{ago} before", closed_at_ms))
        cause, detail = "process_died", f"{detail}its connection had closed {ago} before"
    elif back is not None:
        late = seconds(back.at_ms - expired_at_ms)
        evidence.append(Evidence("came_back", f"sent {back.api} {late} later: {back.error}", back.at_ms))
        cause, detail = "frozen", f"{detail}its connection stayed open and it returned {late} later"
    elif rejoined is not None:
        late = seconds(rejoined[1] - expired_at_ms)
        evidence.append(
            Evidence("came_back", f"its client rejoined {late} later, as {name_of(rejoined[0])}", rejoined[1])
        )
        cause, detail = "frozen", f"{detail}its connection stayed open and its client rejoined {late} later"
        confidence = "medium"
    elif vitals.longest_gap_ms * 2 > vitals.session_timeout_ms:
        cause, detail = "starved", f"{detail}its longest silence before was {seconds(vitals.longest_gap_ms)}"
        confidence = "medium"
    else:
        cause, detail = "unreachable", f"{detail}the broker saw no end of its connection"
        confidence = "medium"
    cause = f"SESSION_TIMEOUT.{cause}" if member.instance_id is None else "STATIC_EXPIRED"
    clause = f"member {name_and_place(member)} was silent and expired after {seconds(silent_ms)} ({detail})"
    return Finding(cause, confidence, clause, tuple(evidence))


def _find_silent_missed_poll(
    member: ClientIdentity,
    vitals: Vitals,
    expired_at_ms: int,
    evidence: Iterable[Evidence],
    assigned_ms: int | None,
) -> Finding | None:
    """Return an exceeded ``max.poll.interval.ms`` as the cause of an expired session, or None.

    Some clients send no LeaveGroup after a missed poll. librdkafka under the consumer protocol leaves only after the
    application revoked its partitions. A static member of Java's client remains in the group. Such a member made its
    last commit progress about one poll interval before its last heartbeat.
    """
    idle_ms, limit_ms = idle_ms_of(vitals, vitals.last_seen_ms, assigned_ms), vitals.rebalance_timeout_ms
    if idle_ms is None or vitals.lag == 0 or vitals.connection_closed_at_ms is not None or vitals.stalled_ms:
        return None
    if reported_poll(vitals, vitals.last_seen_ms) == "in time":
        return None
    if limit_ms == vitals.session_timeout_ms or idle_ms > limit_ms + AUTO_COMMIT_MS + vitals.longest_gap_ms:
        return None
    waiting = f", while {count(vitals.lag, 'record')} waited" if vitals.lag else ""
    later = seconds(expired_at_ms - vitals.last_seen_ms)
    clause = (
        f"member {name_and_place(member)} stopped heartbeats {seconds(idle_ms)} after its last commit progress{waiting}"
        f" (it must poll within {limit(limit_ms)}), and expired {later} later"
    )
    facts = [
        *evidence,
        last_progress(vitals, f"{seconds(idle_ms)} before its last request", assigned_ms),
        Evidence("max_poll_interval", limit(limit_ms)),
    ]
    if vitals.lag is not None:
        facts.append(Evidence("lag", f"{count(vitals.lag, 'record')} in its partitions"))
    is_sure = vitals.lag and vitals.last_progress_ms is not None
    return Finding("MAX_POLL_EXCEEDED", "high" if is_sure else "medium", clause, tuple(facts))


def _is_broker_stall(vitals: Vitals, silent_ms: int) -> bool:
    closed_at_ms, stalled_at_ms = vitals.connection_closed_at_ms, vitals.stalled_at_ms or 0
    if closed_at_ms is not None and closed_at_ms < stalled_at_ms:
        return False
    in_time = silent_ms - vitals.stalled_ms < vitals.session_timeout_ms
    return in_time and vitals.stalled_ms * 4 >= vitals.session_timeout_ms
