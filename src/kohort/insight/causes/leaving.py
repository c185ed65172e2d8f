"""Members that leave: closed, removed by an administrator, or too slow to poll."""

from __future__ import annotations

from typing import Final

from kohort.coordinator.journal import Vitals
from kohort.coordinator.journal_events import MemberDisconnected
from kohort.insight.evidence import AUTO_COMMIT_MS, Beginning, CauseEntry, Evidence, Finding
from kohort.insight.names import actor, count, limit, seconds
from kohort.insight.rebalances import closes_in_order, stopped_polling

LEAVING: Final = (
    CauseEntry(
        code="MEMBER_LEFT",
        sentence="A member left in order: closed, scaled down, redeployed.",
        proof="its LeaveGroup, or heartbeat with epoch -1; the closing of its connection right after confirms it",
        look_alikes=(
            ("MAX_POLL_EXCEEDED", "the client says that it did not poll, or it committed nothing while records waited"),
            ("ADMIN_REMOVED", "the request came from somebody else"),
        ),
        kafka_log="Preparing to rebalance group ... (reason: explicit `LeaveGroup` request for (...) members.)",
    ),
    CauseEntry(
        code="ADMIN_REMOVED",
        sentence="An administrator took a member out.",
        proof="a LeaveGroup that names the member by its instance id alone, or that another client sent; watched from "
        "outside, a static member that is gone before its session can have ended, as none leaves by itself",
        look_alikes=(("MEMBER_LEFT", "the member itself sent the request"),),
        kafka_log="Preparing to rebalance group ... (reason: explicit `LeaveGroup` request for (...) members.)",
    ),
    CauseEntry(
        code="MAX_POLL_EXCEEDED",
        sentence="A member left because its user did not poll within max.poll.interval.ms: handling took too long.",
        proof="the client's own words (KIP-800); or no commit that moved forward for that long, while its heartbeats "
        "came and its connection stayed open",
        look_alikes=(
            ("MEMBER_LEFT", "there was nothing to read, or it closed its connection right after it left"),
            ("JOIN_TIMEOUT", "it did not poll while a rebalance waited for it, and was put out"),
        ),
        advice="raise max.poll.interval.ms, lower max.poll.records, or process off the poll loop",
        kafka_log="Preparing to rebalance group ... (reason: explicit `LeaveGroup` request ...: "
        "consumer poll timeout has expired.)",
    ),
)
HANG_UP_MS: Final = 10_000
"""Time in which a closed client disconnects."""


def find_left(begin: Beginning, sent: Evidence) -> Finding:
    """Find the cause of a member's leave; ``sent`` is its request."""
    evidence = (sent, *begin.said)
    if begin.by is not None:
        clause = f"{begin.members} was removed by {actor(begin.by)}"
        return Finding("ADMIN_REMOVED", "proof", clause, (*evidence, begin.fact("removed_by", actor(begin.by))))
    stopped = find_stop(begin.member, begin.vitals, begin.reason, begin.at_ms, begin.hung_up)
    if stopped is not None:
        return Finding(stopped.cause, stopped.confidence, stopped.clause, (*evidence, *stopped.evidence))
    gone = begin.hung_up
    if gone is not None:
        closed = Evidence("connection_closed", f"{seconds(gone.after_ms)} after it left", gone.at_ms)
        evidence = (*evidence, closed)
    return Finding("MEMBER_LEFT", "proof", f"{begin.members} left the group{begin.because}", evidence)


def find_stop(
    who: str, vitals: Vitals | None, reason: str | None, left_at_ms: int, gone: MemberDisconnected | None
) -> Finding | None:
    """Find out whether a member left because its application stopped polling; None for an orderly leave.

    The client's own reason proves it. Without a reason, the commits imply it: no progress for as long as a poll may
    take, while records waited and the connection stayed open. A client whose limit is its session timeout hides its
    limit (aiokafka). A client that disconnects right after its leave had not stopped.
    """
    said = client_said(vitals, left_at_ms)
    if stopped_polling(reason):
        return Finding(
            "MAX_POLL_EXCEEDED", "high", f"{who} left because it did not poll within max.poll.interval.ms", said
        )
    if vitals is None or closes_in_order(reason) or vitals.connection_closed_at_ms is not None:
        return None
    idle_ms = idle_ms_of(vitals, left_at_ms)
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


def idle_ms_of(vitals: Vitals, left_at_ms: int) -> int | None:
    """Return the time without commit progress, if it exceeds what a polling member may take."""
    if vitals.last_progress_ms is None:
        return None
    idle_ms = left_at_ms - vitals.last_progress_ms
    after_poll_ms = min(AUTO_COMMIT_MS, vitals.rebalance_timeout_ms // 4)
    return idle_ms if idle_ms >= vitals.rebalance_timeout_ms - after_poll_ms else None


def client_said(vitals: Vitals | None, at_ms: int) -> tuple[Evidence, ...]:
    """Return what the client pushed about its polls (KIP-714)."""
    said = vitals and vitals.client_metrics
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
