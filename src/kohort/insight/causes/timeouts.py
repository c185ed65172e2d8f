"""Rebalances caused by members that did not rejoin, send SyncGroup or revoke partitions within a timeout."""

from __future__ import annotations

from typing import Final

from kohort.coordinator.journal import EpochRaised
from kohort.insight.epochs import EpochRebalance
from kohort.insight.evidence import CauseEntry, Evidence, Finding, raise_beginning, round_beginning
from kohort.insight.names import limit, partitions_text, seconds
from kohort.insight.rebalances import Rebalance

_EXPIRED: Final = "Preparing to rebalance group ... (reason: removing member ... on heartbeat expiration)"
_NO_SYNC: Final = "Preparing to rebalance group ... (reason: Removing ... on pending sync request expiration)"

TIMEOUTS: Final = (
    CauseEntry(
        code="JOIN_TIMEOUT",
        sentence="The coordinator removed a member that did not rejoin within its rebalance timeout.",
        proof="the join phase ended at its timeout without the member's JoinGroup",
        look_alikes=(("SESSION_TIMEOUT", "the member's session expired first"),),
        advice="the member's poll loop was busy for longer than max.poll.interval.ms; shorten the work between polls",
        kafka_log="Group ... removed dynamic members who haven't joined: ...",
    ),
    CauseEntry(
        code="SYNC_TIMEOUT",
        sentence="A member joined, but did not request its assignment in time.",
        proof="the timer of the SyncGroup phase",
        look_alikes=(("LEADER_LOST", "the leader is among the missing members"),),
        advice="find the reason why the member ended or froze between JoinGroup and SyncGroup",
        kafka_log=_NO_SYNC,
    ),
    CauseEntry(
        code="NEW_MEMBER_EXPIRED",
        sentence="The coordinator removed a new member that waited five minutes for its first generation.",
        proof="the timer of new members",
        advice="find the member that delayed that rebalance",
        kafka_log=_EXPIRED,
    ),
    CauseEntry(
        code="LEADER_LOST",
        sentence="The leader failed between JoinGroup and SyncGroup.",
        proof="the timer of the SyncGroup phase, with the leader among the missing members",
        look_alikes=(("SYNC_TIMEOUT", "the leader had sent its SyncGroup"),),
        advice="find the reason why the leader ended or froze while it computed the assignment",
        kafka_log=_NO_SYNC,
    ),
    CauseEntry(
        code="REVOCATION_TIMEOUT",
        sentence="A member of a consumer group did not revoke its partitions within its rebalance timeout.",
        proof="the timer of the revocation (KIP-848)",
        look_alikes=(("SESSION_TIMEOUT", "the member's heartbeats also stopped"),),
        advice="keep the member's revoke callback, and its work between polls, shorter than max.poll.interval.ms",
        kafka_log="Member ... fenced from the group because it failed to transition from epoch ... within ...ms.",
    ),
)


def new_member_expired(rebalance: Rebalance) -> Finding:
    begin = round_beginning(rebalance)
    clause = f"{begin.member_text} waited five minutes for its first generation and was removed"
    return Finding("NEW_MEMBER_EXPIRED", "proof", clause, (begin.fact("timer", "new member"),))


def sync_timeout(rebalance: Rebalance) -> Finding:
    begin = round_beginning(rebalance)
    evidence = (begin.fact("timer", f"no SyncGroup in generation {rebalance.from_generation}"),)
    if rebalance.trigger.leader_lost:
        clause = f"the leader failed between JoinGroup and SyncGroup: {begin.members_text} sent no SyncGroup in time"
        return Finding("LEADER_LOST", "proof", clause, evidence)
    return Finding("SYNC_TIMEOUT", "proof", f"{begin.members_text} did not request its assignment in time", evidence)


def revocation_timeout(rebalance: EpochRebalance, raised: EpochRaised) -> Finding:
    begin, vitals = raise_beginning(rebalance, raised), raised.cause.vitals
    within = f" of {limit(vitals.rebalance_timeout_ms)}" if vitals is not None else ""
    kept = rebalance.left_revoking if raised is rebalance.raises[0] else ()
    what = partitions_text(kept) if kept else "its partitions"
    evidence = [begin.fact("timer", f"it did not revoke {what} within its rebalance timeout{within}")]
    if kept:
        evidence.append(Evidence("must_revoke", what, rebalance.revoking_since_ms))
    if vitals is not None:
        ago = seconds(raised.at_ms - vitals.last_seen_ms)
        evidence.append(Evidence("last_request", f"{ago} before its removal"))
    clause = f"{begin.member_text} did not revoke {what} within its rebalance timeout{within} and was removed"
    return Finding("REVOCATION_TIMEOUT", "proof", clause, tuple(evidence))


def rejoin_timeout(rebalance: EpochRebalance, raised: EpochRaised) -> Finding:
    begin = raise_beginning(rebalance, raised)
    fact = begin.fact("timer", "it did not rejoin in time")
    clause = f"{begin.member_text}, of the classic protocol, did not rejoin in time and was removed"
    return Finding("JOIN_TIMEOUT", "proof", clause, (fact,))


def resync_timeout(rebalance: EpochRebalance, raised: EpochRaised) -> Finding:
    begin = raise_beginning(rebalance, raised)
    fact = begin.fact("timer", "it joined, but sent no SyncGroup in time")
    clause = f"{begin.member_text}, of the classic protocol, did not request its assignment in time and was removed"
    return Finding("SYNC_TIMEOUT", "proof", clause, (fact,))
