"""Members that miss a deadline: to rejoin, to sync, to revoke partitions."""

from __future__ import annotations

from typing import Final

from kohort.coordinator.journal import EpochRaised
from kohort.insight.epochs import EpochRebalance
from kohort.insight.evidence import CauseEntry, Evidence, Finding, raise_beginning, round_beginning
from kohort.insight.names import limit, partitions_text, seconds
from kohort.insight.rebalances import Rebalance

_SILENT: Final = "Preparing to rebalance group ... (reason: removing member ... on heartbeat expiration)"

TIMEOUTS: Final = (
    CauseEntry(
        code="JOIN_TIMEOUT",
        sentence="A member did not rejoin while a rebalance waited for it, and was put out.",
        proof="the round closed at its timeout without the member's JoinGroup",
        look_alikes=(("SESSION_TIMEOUT", "its session ended first"),),
        advice="its poll loop was busy for longer than max.poll.interval.ms; shorten what it does between polls",
        kafka_log="Group ... removed dynamic members who haven't joined: ...",
    ),
    CauseEntry(
        code="SYNC_TIMEOUT",
        sentence="A member joined, and did not ask for its assignment in time.",
        proof="the timer of the SyncGroup phase",
        look_alikes=(("LEADER_LOST", "the leader is among those who are missing"),),
        advice="the member ended or froze between joining and being assigned",
        kafka_log="Preparing to rebalance group ... (reason: Removing ... on pending sync request expiration)",
    ),
    CauseEntry(
        code="NEW_MEMBER_EXPIRED",
        sentence="A new member waited five minutes for its first generation, and was given up.",
        proof="the timer of new members",
        advice="look who held up the rebalance that it waited for",
        kafka_log=_SILENT,
    ),
    CauseEntry(
        code="LEADER_LOST",
        sentence="The leader was lost between joining and assigning.",
        proof="the timer of the SyncGroup phase, with the leader among those who are missing",
        look_alikes=(("SYNC_TIMEOUT", "the leader had answered"),),
        advice="the leader ended or froze while it computed the assignment",
        kafka_log="Preparing to rebalance group ... (reason: Removing ... on pending sync request expiration)",
    ),
    CauseEntry(
        code="REVOCATION_TIMEOUT",
        sentence="A member of a modern group did not give up what it was told to within its rebalance timeout.",
        proof="the timer of the revocation (KIP-848)",
        look_alikes=(("SESSION_TIMEOUT", "its heartbeats stopped, too"),),
        advice="its revoke callback took longer than max.poll.interval.ms, or it did not poll; shorten that",
        kafka_log="Member ... fenced from the group because it failed to transition from epoch ... within ...ms.",
    ),
)


def new_member_expired(this: Rebalance) -> Finding:
    begin = round_beginning(this)
    clause = f"{begin.member} waited five minutes for its first generation and was given up"
    return Finding("NEW_MEMBER_EXPIRED", "proof", clause, (begin.fact("timer", "new member"),))


def sync_timeout(this: Rebalance) -> Finding:
    begin = round_beginning(this)
    evidence = (begin.fact("timer", f"no SyncGroup in generation {this.from_generation}"),)
    if this.trigger.leader_lost:
        clause = f"the leader was lost between joining and assigning: {begin.members} sent no SyncGroup in time"
        return Finding("LEADER_LOST", "proof", clause, evidence)
    return Finding("SYNC_TIMEOUT", "proof", f"{begin.members} did not ask for its assignment in time", evidence)


def revocation_timeout(this: EpochRebalance, raised: EpochRaised) -> Finding:
    begin, vitals = raise_beginning(this, raised), raised.cause.vitals
    within = f" of {limit(vitals.rebalance_timeout_ms)}" if vitals is not None else ""
    kept = this.left_revoking if raised is this.raises[0] else ()
    what = partitions_text(kept) if kept else "what it was told to"
    evidence = [begin.fact("timer", f"it did not give up {what} within its rebalance timeout{within}")]
    if kept:
        evidence.append(Evidence("told_to_revoke", what, this.revoking_since_ms))
    if vitals is not None:
        ago = seconds(raised.at_ms - vitals.last_seen_ms)
        evidence.append(Evidence("last_request", f"{ago} before it was put out"))
    clause = f"{begin.member} did not give up {what} within its rebalance timeout{within} and was put out"
    return Finding("REVOCATION_TIMEOUT", "proof", clause, tuple(evidence))


def rejoin_timeout(this: EpochRebalance, raised: EpochRaised) -> Finding:
    begin = raise_beginning(this, raised)
    fact = begin.fact("timer", "it was told to join again, and did not in time")
    clause = f"{begin.member}, of the classic protocol, was told to join again, did not, and was put out"
    return Finding("JOIN_TIMEOUT", "proof", clause, (fact,))


def resync_timeout(this: EpochRebalance, raised: EpochRaised) -> Finding:
    begin = raise_beginning(this, raised)
    fact = begin.fact("timer", "it joined, and sent no SyncGroup in time")
    clause = f"{begin.member}, of the classic protocol, did not ask for its assignment in time and was put out"
    return Finding("SYNC_TIMEOUT", "proof", clause, (fact,))
