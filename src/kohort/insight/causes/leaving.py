"""Rebalances caused by leaves: closed clients, removals by an administrator, missed polls."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from kohort.coordinator.journal import Vitals
from kohort.coordinator.journal_events import MemberDisconnected
from kohort.insight.evidence import AUTO_COMMIT_MS, Beginning, CauseEntry, Evidence, Finding
from kohort.insight.names import actor, count, limit, name_of, seconds
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
        proof="the client's reason (KIP-800), or no commit progress despite lag, heartbeats and an open connection; "
        "the return of the same client confirms the cause",
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
    stopped = find_missed_poll(
        begin.member_text, begin.vitals, begin.reason, begin.at_ms, begin.disconnected, begin.assigned_ms
    )
    if stopped is not None:
        if begin.back is not None and stopped.confidence == "medium":
            member, at_ms = begin.back
            came = f"{name_of(member)} of the same client joined {seconds(at_ms - begin.at_ms)} later"
            stopped = replace(
                stopped, confidence="high", evidence=(*stopped.evidence, Evidence("came_back", came, at_ms))
            )
        return Finding(stopped.cause, stopped.confidence, stopped.clause, (*evidence, *stopped.evidence))
    gone = begin.disconnected
    if gone is not None:
        closed = Evidence("connection_closed", f"{seconds(gone.after_ms)} after it left", gone.at_ms)
        evidence = (*evidence, closed)
    clause = f"{begin.members_text} left the group{begin.reason_text}"
    if _may_be_missed_poll(begin):
        clause += ", or did not poll within max.poll.interval.ms: it has never committed, so its progress is unknown"
        return Finding("MEMBER_LEFT", "low", clause, evidence, ("MAX_POLL_EXCEEDED",))
    return Finding("MEMBER_LEFT", "proof", clause, evidence)


def _may_be_missed_poll(begin: Beginning) -> bool:
    """Return True for a leave at the poll limit by a member without any commit, whose lag is unknown."""
    vitals, gone = begin.vitals, begin.disconnected
    if vitals is None or begin.reason or vitals.last_progress_ms is not None or vitals.lag is not None:
        return False
    if vitals.connection_closed_at_ms is not None or (gone is not None and gone.after_ms <= DISCONNECT_MS):
        return False
    if reported_poll(vitals, begin.at_ms) == "in time":
        return False
    return _is_one_poll_interval(vitals, begin.at_ms, begin.assigned_ms)


def _is_one_poll_interval(vitals: Vitals, at_ms: int, assigned_ms: int | None) -> bool:
    if assigned_ms is None or vitals.rebalance_timeout_ms == vitals.session_timeout_ms:
        return False
    limit_ms = vitals.rebalance_timeout_ms
    least_ms = limit_ms - min(AUTO_COMMIT_MS, limit_ms // 4)
    return least_ms <= at_ms - assigned_ms <= limit_ms + 2 * AUTO_COMMIT_MS


def find_missed_poll(
    member: str,
    vitals: Vitals | None,
    reason: str | None,
    left_at_ms: int,
    gone: MemberDisconnected | None,
    assigned_ms: int | None = None,
) -> Finding | None:
    """Return an exceeded ``max.poll.interval.ms`` as the cause of a leave, or None for an orderly leave.

    The leave reason of the client proves the missed poll. Without a leave reason, the member's commits can imply it: no
    commit progress within the poll interval, although records were available and the connection stayed open. Commits
    imply nothing if the client disconnects right after its leave. If both timeouts of the member are equal (aiokafka),
    its poll interval is unknown, and only a member with lag can have missed a poll. ``assigned_ms``: time of the
    member's last assignment, which counts if the member has never committed. The time of the last poll that the client
    pushed (KIP-714) takes precedence over commits.
    """
    said = client_reports(vitals, left_at_ms)
    if stopped_polling(reason):
        return Finding(
            "MAX_POLL_EXCEEDED", "high", f"{member} left because it did not poll within max.poll.interval.ms", said
        )
    if vitals is None or closes_in_order(reason) or vitals.connection_closed_at_ms is not None:
        return None
    if gone is not None and gone.after_ms <= DISCONNECT_MS:
        return None
    polled = reported_poll(vitals, left_at_ms)
    if polled == "in time":
        return None
    if polled == "missed":
        within = f"within {limit(vitals.rebalance_timeout_ms)}, by its client's metrics"
        clause = f"{member} left while its connection stayed open, and had not polled {within}"
        return Finding("MAX_POLL_EXCEEDED", "high", clause, said)
    return _find_idle_leave(member, vitals, left_at_ms, assigned_ms)


def reported_poll(vitals: Vitals, at_ms: int) -> Literal["in time", "missed", "unknown"]:
    """Compare the time of the member's last poll, by the metrics of its client (KIP-714), with its poll interval.

    The last poll may be later than the last push of the metrics, so an old push shows nothing.
    """
    said, limit_ms = vitals.client_metrics, vitals.rebalance_timeout_ms
    if said is None or said.last_poll_ms_ago is None or limit_ms == vitals.session_timeout_ms:
        return "unknown"
    longest_ms = max(0, at_ms - said.at_ms) + said.last_poll_ms_ago
    if longest_ms < limit_ms * 3 // 4:
        return "in time"
    return "missed" if said.last_poll_ms_ago >= limit_ms // 2 else "unknown"


def _find_idle_leave(member: str, vitals: Vitals, left_at_ms: int, assigned_ms: int | None) -> Finding | None:
    has_limit = vitals.rebalance_timeout_ms != vitals.session_timeout_ms
    find_idle_ms = idle_ms_of if has_limit else _idle_ms_without_limit
    idle_ms = find_idle_ms(vitals, left_at_ms, assigned_ms)
    if idle_ms is None or vitals.lag == 0:
        return None
    poll_limit = f"its limit is {limit(vitals.rebalance_timeout_ms)} between polls"
    if not has_limit:
        poll_limit = "its limit between polls is unknown: the client reports one timeout for sessions and rebalances"
    waiting = f", while {count(vitals.lag, 'record')} waited" if vitals.lag else ""
    clause = (
        f"{member} left while its connection stayed open, after {seconds(idle_ms)} without commit progress{waiting}"
        f" ({poll_limit})"
    )
    evidence = [
        last_progress(vitals, f"{seconds(idle_ms)} before", assigned_ms),
        Evidence("longest_gap", f"{seconds(vitals.longest_gap_ms)} between two of its requests"),
    ]
    if vitals.lag is not None:
        evidence.append(Evidence("lag", f"{count(vitals.lag, 'record')} in its partitions"))
    evidence += client_reports(vitals, left_at_ms)
    is_sure = vitals.lag and has_limit and vitals.last_progress_ms is not None
    return Finding("MAX_POLL_EXCEEDED", "high" if is_sure else "medium", clause, tuple(evidence))


def last_progress(vitals: Vitals, when: str, assigned_ms: int | None) -> Evidence:
    if vitals.last_progress_ms is None:
        return Evidence("never_committed", f"since its last assignment, {when}", assigned_ms)
    return Evidence("last_commit_progress", when, vitals.last_progress_ms)


def _idle_ms_without_limit(vitals: Vitals, left_at_ms: int, assigned_ms: int | None) -> int | None:
    since_ms = assigned_ms if vitals.last_progress_ms is None else vitals.last_progress_ms
    if since_ms is None or not vitals.lag:
        return None
    return left_at_ms - since_ms if left_at_ms - since_ms >= AUTO_COMMIT_MS else None


def idle_ms_of(vitals: Vitals, left_at_ms: int, assigned_ms: int | None = None) -> int | None:
    """Return the time from the last commit progress to the leave, in ms; None if clearly below the poll interval.

    For a member with lag that has never committed, the time begins with its last assignment, and is about one poll
    interval: such a member may also store its offsets elsewhere.
    """
    if vitals.last_progress_ms is not None:
        idle_ms = left_at_ms - vitals.last_progress_ms
        after_poll_ms = min(AUTO_COMMIT_MS, vitals.rebalance_timeout_ms // 4)
        return idle_ms if idle_ms >= vitals.rebalance_timeout_ms - after_poll_ms else None
    if assigned_ms is None or not vitals.lag or not _is_one_poll_interval(vitals, left_at_ms, assigned_ms):
        return None
    return left_at_ms - assigned_ms


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
