"""What a cause is and rests on; and why a member that left did so, or one that fell silent, whichever the protocol."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from kohort.coordinator.journal import RequestFenced, Vitals, Who
from kohort.coordinator.journal_events import MemberDisconnected
from kohort.insight.names import count, limit, name_and_place, name_of, seconds
from kohort.insight.rebalances import closes_in_order, stopped_polling

Confidence = Literal["proof", "high", "medium", "low"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact: what kind it is, its value in words, and when it was so."""

    kind: str
    value: str
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause, how sure it is, the clause that tells it, and the facts behind it."""

    cause: str
    confidence: Confidence
    clause: str
    evidence: tuple[Evidence, ...]


HANG_UP_MS: Final = 10_000
"""Within which a client that is closed has closed its connection, too."""
AUTO_COMMIT_MS: Final = 5000
"""How long after its last poll a member may still commit by itself: the usual ``auto.commit.interval.ms``."""


def hung_up(gone: MemberDisconnected | None) -> tuple[Evidence, ...]:
    """Return the fact that the connection of a member that left has closed, if it is known."""
    if gone is None:
        return ()
    return (Evidence("connection_closed", f"{seconds(gone.after_ms)} after it left", gone.at_ms),)


def find_stop(
    who: str, vitals: Vitals | None, reason: str | None, left_at_ms: int, gone: MemberDisconnected | None
) -> Finding | None:
    """Find out whether a member that left did so as its user no longer polled; None: it left in order, as far as is
    known.

    Its own words prove it. Without any it is concluded from commits: nothing moved on for as long as the user may take,
    though records waited, and the connection stayed open. A client whose limit is its session timeout does not say what
    its limit is (aiokafka), and none that hung up right after it left had stopped.
    """
    said = client_said(vitals, left_at_ms)
    if stopped_polling(reason):
        return Finding(
            "MAX_POLL_EXCEEDED", "high", f"{who} left because it did not poll within max.poll.interval.ms", said
        )
    if vitals is None or closes_in_order(reason) or vitals.connection_closed_at_ms is not None:
        return None
    idle_ms = _idle_ms(vitals, left_at_ms)
    tells_limit = vitals.rebalance_timeout_ms != vitals.session_timeout_ms
    closed_at_once = gone is not None and gone.after_ms <= HANG_UP_MS
    if idle_ms is None or vitals.lag == 0 or not tells_limit or closed_at_once:
        return None
    waiting = f", while {count(vitals.lag, 'record')} waited" if vitals.lag else ""
    clause = (
        f"{who} left while its connection stayed open, after {seconds(idle_ms)} without commit progress{waiting}"
        f" (its limit is {limit(vitals.rebalance_timeout_ms)} after a poll)"
    )
    evidence = [
        Evidence("last_commit_progress", f"{seconds(idle_ms)} before", vitals.last_progress_ms),
        Evidence("longest_gap", f"{seconds(vitals.longest_gap_ms)} between two of its requests"),
    ]
    if vitals.lag is not None:
        evidence.append(Evidence("lag", f"{count(vitals.lag, 'record')} in what it had"))
    evidence += said
    return Finding("MAX_POLL_EXCEEDED", "high" if vitals.lag else "medium", clause, tuple(evidence))


def _idle_ms(vitals: Vitals, left_at_ms: int) -> int | None:
    """Return how long the member had committed nothing new, if that is so long that it cannot have polled in time."""
    if vitals.last_progress_ms is None:
        return None
    idle_ms = left_at_ms - vitals.last_progress_ms
    after_poll_ms = min(AUTO_COMMIT_MS, vitals.rebalance_timeout_ms // 4)
    return idle_ms if idle_ms >= vitals.rebalance_timeout_ms - after_poll_ms else None


def client_said(vitals: Vitals | None, at_ms: int) -> tuple[Evidence, ...]:
    """Return the fact of what the member's client had pushed of itself (KIP-714), if it had, and it says something."""
    said = vitals and vitals.said
    if not said:
        return ()
    words = []
    if said.last_poll_ms_ago is not None:
        words.append(f"its user had polled {seconds(said.last_poll_ms_ago)} ago")
    if said.longest_poll_gap_ms:
        words.append(f"{seconds(said.longest_poll_gap_ms)} lay between two polls at most")
    if said.poll_idle_ratio is not None:
        words.append(f"its user waited for records {min(max(said.poll_idle_ratio, 0), 1):.0%} of the time")
    if not words:
        return ()
    return (Evidence("client_said", f"{seconds(at_ms - said.at_ms)} before: {', '.join(words)}", said.at_ms),)


class Aftermath(Protocol):
    """What is known of members after they are out of the group."""

    @property
    def fenced(self) -> list[RequestFenced]: ...
    @property
    def back(self) -> dict[str, tuple[Who, int]]:
        """Members, by their ids: as whom the same client joined anew, and when."""


def find_silence(who: Who, vitals: Vitals, expired_at_ms: int, after: Aftermath) -> Finding:
    """Find why a member fell silent until its session ended: gone, frozen, short of time, or out of reach."""
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

    Some clients do not leave at ``max.poll.interval.ms``, they only fall silent: librdkafka under the consumer protocol
    leaves once the application revokes its partitions, and a static member of Java's client keeps its place. Such a
    member makes its last commit progress one poll interval before its last heartbeat.
    """
    idle_ms, limit_ms = _idle_ms(vitals, vitals.last_seen_ms), vitals.rebalance_timeout_ms
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
    """Tell whether a session ended as the broker stood still for about a heartbeat or more: without that time the
    member was not silent for too long, nor had it hung up before."""
    closed_at_ms, stalled_at_ms = vitals.connection_closed_at_ms, vitals.stalled_at_ms or 0
    if closed_at_ms is not None and closed_at_ms < stalled_at_ms:
        return False
    in_time = silent_ms - vitals.stalled_ms < vitals.session_timeout_ms
    return in_time and vitals.stalled_ms * 4 >= vitals.session_timeout_ms
