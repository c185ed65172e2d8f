"""Members whose sessions end: died, frozen, starved, unreachable, or not heard by a stalled broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from kohort.coordinator.journal import RequestFenced, Vitals, Who
from kohort.insight.causes.leaving import client_said, idle_ms_of
from kohort.insight.evidence import AUTO_COMMIT_MS, Beginning, CauseEntry, Confidence, Evidence, Finding
from kohort.insight.names import count, limit, name_and_place, name_of, seconds
from kohort.insight.rebalances import Rebalance

_SILENT: Final = "Preparing to rebalance group ... (reason: removing member ... on heartbeat expiration)"

SILENCE: Final = (
    CauseEntry(
        code="SESSION_TIMEOUT",
        sentence="A member fell silent until its session ended; the journal lacks its last signs of life.",
        proof="the session's timer, and nothing else: the broker had just taken over, or the cluster was seen from "
        "outside",
        advice="look whether its process, its host and the network are there",
        kafka_log=_SILENT,
    ),
    CauseEntry(
        code="SESSION_TIMEOUT.process_died",
        sentence="A process ended without leaving: no heartbeat within the session, and its connection had closed.",
        proof="the session's timer; the connection of its last request closed before",
        look_alikes=(("SESSION_TIMEOUT.unreachable", "the connection is open as far as the broker knows"),),
        advice="find out why the process ended; one that closes its consumer is not waited for",
        kafka_log=_SILENT,
    ),
    CauseEntry(
        code="SESSION_TIMEOUT.frozen",
        sentence="A member stood still for longer than its session, and came back.",
        proof="the session's timer, an open connection, and a request under the same member id afterwards, or the same "
        "client joining anew",
        look_alikes=(
            ("SESSION_TIMEOUT.unreachable", "it did not come back so far"),
            ("BROKER_STALL", "the broker itself stood still"),
        ),
        advice="look for long pauses (collector, swap, suspension), or raise session.timeout.ms",
        kafka_log=_SILENT,
    ),
    CauseEntry(
        code="SESSION_TIMEOUT.starved",
        sentence="A member's heartbeats came ever later before they stopped: too little processor time.",
        proof="the session's timer, and a silence of more than half a session that it had survived before",
        look_alikes=(("SESSION_TIMEOUT.frozen", "its heartbeats were punctual until they stopped"),),
        advice="its heartbeats came ever later: give it CPU, or raise session.timeout.ms",
        kafka_log=_SILENT,
    ),
    CauseEntry(
        code="SESSION_TIMEOUT.unreachable",
        sentence="A member fell silent while its connection is open, as far as is known: the host or the network.",
        proof="the session's timer; no end of the connection was seen, and no request since",
        look_alikes=(
            ("SESSION_TIMEOUT.process_died", "its connection closed"),
            ("SESSION_TIMEOUT.frozen", "it came back; until then the two cannot be told apart"),
        ),
        advice="look at the host and the network between it and the broker",
        kafka_log=_SILENT,
    ),
    CauseEntry(
        code="BROKER_STALL",
        sentence="The broker stood still, and then found sessions ended whose members it had not been able to hear.",
        proof="the broker's own clock: it noted when it stood still and for how long; without that time the member's "
        "silence is shorter than its session",
        look_alikes=(
            ("SESSION_TIMEOUT.unreachable", "the broker was awake all the while"),
            ("SESSION_TIMEOUT.process_died", "the connection had closed before the broker stood still"),
        ),
        advice="the members are not to blame: look at the broker's host (CPU, swap, suspension, disk), and keep other "
        "work out of the process of an embedded broker",
        kafka_log=_SILENT,
    ),
    CauseEntry(
        code="STATIC_EXPIRED",
        sentence="A static member did not come back within its session.",
        proof="the session's timer of a member with an instance id",
        look_alikes=(("SESSION_TIMEOUT", "a member without an instance id"),),
        advice="its partitions had no owner all the while: raise session.timeout.ms above its restart time",
        kafka_log=_SILENT,
    ),
)


def unheard(begin: Beginning) -> Finding:
    """Return the end of a session without vitals: the coordinator had just taken over."""
    clause = f"{begin.member} was silent until its session ended"
    return Finding("SESSION_TIMEOUT", "low", clause, (begin.fact("timer", "its session ended"),))


def find_silence_in(this: Rebalance, who: Who, vitals: Vitals, expired_at_ms: int) -> Finding:
    """Find why a session ended before or during a round; unknown for a member that the present coordinator never
    heard."""
    loaded = this.loaded_lately
    if loaded is None or vitals.last_seen_ms > loaded.at_ms or who.instance_id is not None:
        return find_silence(who, vitals, expired_at_ms, this)
    since = seconds(expired_at_ms - loaded.at_ms)
    fact = Evidence("group_loaded", f"at generation {loaded.generation}, {since} before", loaded.at_ms)
    clause = (
        f"member {name_and_place(who)} was not heard in the {since} since its coordinator had begun anew, and its"
        f" session ended ({limit(vitals.session_timeout_ms)})"
    )
    return Finding("SESSION_TIMEOUT", "low", clause, (fact,))


class Aftermath(Protocol):
    """Requests and joins after the departure of members."""

    @property
    def fenced(self) -> list[RequestFenced]: ...
    @property
    def back(self) -> dict[str, tuple[Who, int]]:
        """By id of a departed member: the member as which its client rejoined, and when."""


def find_silence(who: Who, vitals: Vitals, expired_at_ms: int, after: Aftermath) -> Finding:
    """Find why a member was silent until its session ended: died, frozen, starved or unreachable."""
    silent_ms = expired_at_ms - vitals.last_seen_ms
    closed_at_ms = vitals.connection_closed_at_ms
    back = next((f for f in after.fenced if f.who.member_id == who.member_id), None)
    anew = after.back.get(who.member_id)
    detail = f"session timeout {limit(vitals.session_timeout_ms)}; "
    evidence = [
        Evidence("last_request", f"{seconds(silent_ms)} before it was expired", vitals.last_seen_ms),
        Evidence("session_timeout", limit(vitals.session_timeout_ms)),
        Evidence("longest_gap", seconds(vitals.longest_gap_ms)),
        *client_said(vitals, expired_at_ms),
    ]
    confidence: Confidence = "high"
    missed_poll = _find_missed_poll(who, vitals, expired_at_ms, evidence)
    if missed_poll is not None:
        return missed_poll
    if vitals.stalled_ms:
        evidence.append(Evidence("broker_stalled", f"for {seconds(vitals.stalled_ms)} of it", vitals.stalled_at_ms))
        if _is_ours(vitals, silent_ms):
            clause = (
                f"the broker stood still for {seconds(vitals.stalled_ms)}, and found the session of member"
                f" {name_and_place(who)} ended, which it had not been able to hear"
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
        cause, detail = "frozen", f"{detail}its connection stayed open and it came back {late} later"
    elif anew is not None:
        late = seconds(anew[1] - expired_at_ms)
        evidence.append(Evidence("came_back", f"its client joined anew {late} later, as {name_of(anew[0])}", anew[1]))
        cause, detail = "frozen", f"{detail}its connection stayed open and its client joined anew {late} later"
        confidence = "medium"
    elif vitals.longest_gap_ms * 2 > vitals.session_timeout_ms:
        cause, detail = "starved", f"{detail}it had been silent for {seconds(vitals.longest_gap_ms)} before"
        confidence = "medium"
    else:
        cause, detail = "unreachable", f"{detail}its connection is open as far as is known"
        confidence = "medium"
    cause = f"SESSION_TIMEOUT.{cause}" if who.instance_id is None else "STATIC_EXPIRED"
    clause = f"member {name_and_place(who)} stopped heartbeating and was expired after {seconds(silent_ms)} ({detail})"
    return Finding(cause, confidence, clause, tuple(evidence))


def _find_missed_poll(who: Who, vitals: Vitals, expired_at_ms: int, evidence: Iterable[Evidence]) -> Finding | None:
    """Find out whether a member stopped its heartbeats because its application did not poll in time.

    Some clients do not leave at ``max.poll.interval.ms``: librdkafka under the consumer protocol leaves once the
    application revokes its partitions, and a static member of Java's client keeps its place. The last commit progress
    of such a member is one poll interval before its last heartbeat.
    """
    idle_ms, limit_ms = idle_ms_of(vitals, vitals.last_seen_ms), vitals.rebalance_timeout_ms
    if idle_ms is None or vitals.lag == 0 or vitals.connection_closed_at_ms is not None or vitals.stalled_ms:
        return None
    if limit_ms == vitals.session_timeout_ms or idle_ms > limit_ms + AUTO_COMMIT_MS + vitals.longest_gap_ms:
        return None
    waiting = f", while {count(vitals.lag, 'record')} waited" if vitals.lag else ""
    later = seconds(expired_at_ms - vitals.last_seen_ms)
    clause = (
        f"member {name_and_place(who)} stopped heartbeating {seconds(idle_ms)} after its last commit progress{waiting}"
        f" (it must poll within {limit(limit_ms)}), and was expired {later} later"
    )
    facts = [
        *evidence,
        Evidence("last_commit_progress", f"{seconds(idle_ms)} before its last request", vitals.last_progress_ms),
        Evidence("max_poll_interval", limit(limit_ms)),
    ]
    if vitals.lag is not None:
        facts.append(Evidence("lag", f"{count(vitals.lag, 'record')} in its partitions"))
    return Finding("MAX_POLL_EXCEEDED", "high" if vitals.lag else "medium", clause, tuple(facts))


def _is_ours(vitals: Vitals, silent_ms: int) -> bool:
    """Tell whether a stall of the broker ended the session: without it, the member was not silent for too long."""
    closed_at_ms, stalled_at_ms = vitals.connection_closed_at_ms, vitals.stalled_at_ms or 0
    if closed_at_ms is not None and closed_at_ms < stalled_at_ms:
        return False
    in_time = silent_ms - vitals.stalled_ms < vitals.session_timeout_ms
    return in_time and vitals.stalled_ms * 4 >= vitals.session_timeout_ms
