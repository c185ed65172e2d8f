"""Rebalances caused by leaves: closed clients, removals by an administrator, missed polls."""

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
        sentence="A member left in an orderly way: closed, scaled down, redeployed.",
        proof="the member's LeaveGroup or heartbeat with epoch -1; an immediate disconnect confirms the cause",
        look_alikes=(
            (
                "MAX_POLL_EXCEEDED",
                "the client reports a missed poll, or committed nothing although records were available",
            ),
            ("ADMIN_REMOVED", "another client sent the request"),
        ),
        kafka_log="Preparing to rebalance group ... (reason: explicit `LeaveGroup` request for (...) members.)",
    ),
    CauseEntry(
        code="ADMIN_REMOVED",
        sentence="An administrator removed a member.",
        proof="a LeaveGroup from another client, or with the instance id alone; for a watcher, a static member that "
        "departed before its session can have expired",
        look_alikes=(("MEMBER_LEFT", "the member itself sent the request"),),
        kafka_log="Preparing to rebalance group ... (reason: explicit `LeaveGroup` request for (...) members.)",
    ),
    CauseEntry(
        code="MAX_POLL_EXCEEDED",
        sentence="A member left because its application did not poll within max.poll.interval.ms.",
        proof="the client's reason (KIP-800), or no commit progress despite heartbeats and an open connection",
        look_alikes=(
            ("MEMBER_LEFT", "the member had no lag, or closed its connection right after its leave"),
            ("JOIN_TIMEOUT", "the coordinator removed the member because it did not poll during a rebalance"),
        ),
        advice="raise max.poll.interval.ms, lower max.poll.records, or process off the poll loop",
        kafka_log="Preparing to rebalance group ... (reason: explicit `LeaveGroup` request ...: "
        "consumer poll timeout has expired.)",
    ),
)
DISCONNECT_MS: Final = 10_000
"""A leave is orderly if the client disconnects within this many ms after its LeaveGroup request."""


def find_left(begin: Beginning, sent: Evidence) -> Finding:
    """Return the cause of a member's leave or removal; ``sent`` is the evidence of the LeaveGroup request."""
    evidence = (sent, *begin.reason_facts)
    if begin.by is not None:
        clause = f"{begin.members_text} was removed by {actor(begin.by)}"
        return Finding("ADMIN_REMOVED", "proof", clause, (*evidence, begin.fact("removed_by", actor(begin.by))))
    stopped = find_missed_poll(begin.member_text, begin.vitals, begin.reason, begin.at_ms, begin.disconnected)
    if stopped is not None:
        return Finding(stopped.cause, stopped.confidence, stopped.clause, (*evidence, *stopped.evidence))
    gone = begin.disconnected
    if gone is not None:
        closed = Evidence("connection_closed", f"{seconds(gone.after_ms)} after it left", gone.at_ms)
        evidence = (*evidence, closed)
    return Finding("MEMBER_LEFT", "proof", f"{begin.members_text} left the group{begin.reason_text}", evidence)


def find_missed_poll(
    member: str, vitals: Vitals | None, reason: str | None, left_at_ms: int, gone: MemberDisconnected | None
) -> Finding | None:
    """Return an exceeded ``max.poll.interval.ms`` as the cause of a leave, or None for an orderly leave.

    The leave reason of the client proves the missed poll. Without a leave reason, the member's commits can imply it: no
    commit progress within the poll interval, although records were available and the connection stayed open. Commits
    imply nothing if the client disconnects right after its leave, or if its session timeout equals its poll interval
    (aiokafka).
    """
    said = client_reports(vitals, left_at_ms)
    if stopped_polling(reason):
        return Finding(
            "MAX_POLL_EXCEEDED", "high", f"{member} left because it did not poll within max.poll.interval.ms", said
        )
    if vitals is None or closes_in_order(reason) or vitals.connection_closed_at_ms is not None:
        return None
    idle_ms = idle_ms_of(vitals, left_at_ms)
    tells_limit = vitals.rebalance_timeout_ms != vitals.session_timeout_ms
    closed_at_once = gone is not None and gone.after_ms <= DISCONNECT_MS
    if idle_ms is None or vitals.lag == 0 or not tells_limit or closed_at_once:
        return None
    waiting = f", while {count(vitals.lag, 'record')} waited" if vitals.lag else ""
    clause = (
        f"{member} left while its connection stayed open, after {seconds(idle_ms)} without commit progress{waiting}"
        f" (its limit is {limit(vitals.rebalance_timeout_ms)} between polls)"
    )
    evidence = [
        Evidence("last_commit_progress", f"{seconds(idle_ms)} before", vitals.last_progress_ms),
        Evidence("longest_gap", f"{seconds(vitals.longest_gap_ms)} between two of its requests"),
    ]
    if vitals.lag is not None:
        evidence.append(Evidence("lag", f"{count(vitals.lag, 'record')} in its partitions"))
    evidence += said
    return Finding("MAX_POLL_EXCEEDED", "high" if vitals.lag else "medium", clause, tuple(evidence))


def idle_ms_of(vitals: Vitals, left_at_ms: int) -> int | None:
    """Return the time from the last commit progress to the leave, in ms; None if clearly below the poll interval."""
    if vitals.last_progress_ms is None:
        return None
    idle_ms = left_at_ms - vitals.last_progress_ms
    after_poll_ms = min(AUTO_COMMIT_MS, vitals.rebalance_timeout_ms // 4)
    return idle_ms if idle_ms >= vitals.rebalance_timeout_ms - after_poll_ms else None


def client_reports(vitals: Vitals | None, at_ms: int) -> tuple[Evidence, ...]:
    """Return evidence from the poll metrics that the client pushed to the broker (KIP-714)."""
    said = vitals and vitals.client_metrics
    if not said:
        return ()
    words = []
    if said.last_poll_ms_ago is not None:
        words.append(f"its application had polled {seconds(said.last_poll_ms_ago)} ago")
    if said.longest_poll_gap_ms:
        words.append(f"longest time between two polls {seconds(said.longest_poll_gap_ms)}")
    if said.poll_idle_ratio is not None:
        words.append(f"its application waited for records {min(max(said.poll_idle_ratio, 0), 1):.0%} of the time")
    if not words:
        return ()
    return (Evidence("client_metrics", f"{seconds(at_ms - said.at_ms)} before: {', '.join(words)}", said.at_ms),)
