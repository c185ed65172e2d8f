"""Rebalances caused by the coordinator: failover, lost records, conversion, group.max.size. Also: unknown causes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kohort.coordinator.journal import Change, EpochRaised
from kohort.insight.causes.changes import differs
from kohort.insight.epochs import EpochRebalance
from kohort.insight.evidence import CauseEntry, Evidence, Finding, raise_beginning, round_beginning
from kohort.insight.names import count, name_and_place, name_of, printable, seconds
from kohort.insight.observed.generations import SeenRebalance
from kohort.insight.rebalances import Rebalance

COORDINATION: Final = (
    CauseEntry(
        code="COORDINATOR_FAILOVER",
        sentence="The group moved to another coordinator, or its broker restarted.",
        proof="the coordinator loaded the group from its log; a rebalance in flight restarted, or within a minute a "
        "client rejoined without another change",
        look_alikes=(
            ("CLIENT_RESET", "the coordinator stayed, and removed the member"),
            ("LEADER_REJOIN", "the coordinator did not load the group recently"),
        ),
        advice="expected after a broker restart; the members of a stable group keep their partitions",
        kafka_log="Finished loading of metadata from __consumer_offsets-...",
    ),
    CauseEntry(
        code="GENERATION_LOST",
        sentence="Members have a newer generation than the coordinator's log.",
        proof="ILLEGAL_GENERATION in response to requests with a later generation than the loaded one",
        look_alikes=(("COORDINATOR_FAILOVER", "members and log have the same generation"),),
        advice="records of __consumer_offsets were lost: check its replicas, and unclean leader elections",
    ),
    CauseEntry(
        code="ASSIGNMENT_STORE_FAILED",
        sentence="The broker could not write the generation to its log.",
        proof="the error of the append to __consumer_offsets",
        advice="check the broker's disk",
        kafka_log="Error ... when storing group assignment during SyncGroup",
    ),
    CauseEntry(
        code="PROTOCOL_MIGRATION",
        sentence="The group changed from the classic protocol to the consumer protocol, or back.",
        proof="the coordinator's record of the conversion",
        kafka_log="Converted the classic group to a consumer group.",
    ),
    CauseEntry(
        code="OVER_CAPACITY",
        sentence="The coordinator loaded a group with more members than group.max.size.",
        proof="the number of members in the log",
        look_alikes=(("GROUP_FULL", "the coordinator rejected a new member"),),
        advice="raise group.max.size, or run fewer members",
        kafka_log="Freshly-loaded group ... (size ...) is over capacity ...",
    ),
    CauseEntry(
        code="UNEXPLAINED",
        sentence="The group rebalanced without a visible cause.",
        proof="the records before and after show no cause: the cluster was only watched (kohort watch)",
        look_alikes=(("LEADER_REJOIN", "a kohort broker saw the leader rejoin"),),
        advice="read the broker's log at that time: Apache Kafka logs the client's reason (KIP-800)",
    ),
)


def after_failover(rebalance: Rebalance, cause_of: Callable[[Rebalance], Finding]) -> Finding | None:
    """Return a failover as the cause of the first rebalance after it; None if that rebalance has another cause."""
    loaded = rebalance.loaded
    if loaded is None or rebalance.trigger.event not in ("member_joined", "member_rejoined"):
        return None
    since = seconds(rebalance.opened_at_ms - loaded.at_ms)
    evidence = [Evidence("group_loaded", f"at generation {loaded.generation}, {since} before", loaded.at_ms)]
    if rebalance.newer is not None:
        newer = rebalance.newer
        value = f"{name_of(newer.member)} sent generation {newer.generation} ({newer.api}: {newer.error})"
        clause = f"members have generation {newer.generation}, but the coordinator's log ends with {newer.current}"
        return Finding(
            "GENERATION_LOST", "proof", clause, (*evidence, Evidence("newer_generation", value, newer.at_ms))
        )
    before = rebalance.interrupted
    if before is None or not _repeats_request(rebalance, before):
        return None
    cut = f"the rebalance after generation {before.from_generation} was in flight when its coordinator was lost"
    evidence.append(Evidence("interrupted", cut, before.opened_at_ms))
    first = cause_of(before).clause
    clause = f"the coordinator was lost during a rebalance ({first}), which restarted"
    return Finding("COORDINATOR_FAILOVER", "proof", clause, tuple(evidence))


def since_failover(rebalance: Rebalance) -> Finding | None:
    """Return a recent coordinator failover as the cause if a known client rejoined with unchanged metadata."""
    loaded = rebalance.recent_load
    if loaded is None:
        return None
    begin = round_beginning(rebalance)
    since = seconds(rebalance.opened_at_ms - loaded.at_ms)
    fact = Evidence("group_loaded", f"at generation {loaded.generation}, {since} before", loaded.at_ms)
    if rebalance.trigger.event == "member_rejoined":
        if differs(rebalance):
            return None
        clause = (
            f"{begin.member_text} rejoined {since} after the coordinator loaded the group, and nothing else differs"
        )
        return Finding("COORDINATOR_FAILOVER", "high", clause, (fact, *begin.reason_facts))
    member = rebalance.trigger.member
    if rebalance.trigger.event != "member_joined" or rebalance.returned is not None:
        return None
    if member is None or not member.client_id or member.client not in {known.client for known in loaded.members}:
        return None
    known = Evidence("known_client", f"the log has a member of client {printable(member.client_id)}")
    clause = f"{begin.member_text} joined as a new member {since} after the coordinator loaded the group"
    return Finding("COORDINATOR_FAILOVER", "medium", clause, (fact, known, *begin.reason_facts))


def _repeats_request(rebalance: Rebalance, before: Rebalance) -> bool:
    member, change = rebalance.trigger.member, rebalance.trigger.change or Change()
    if rebalance.trigger.event == "member_rejoined":
        same = change.protocols_before == change.protocols_after
        return same and not (change.topics_added or change.topics_removed or change.partitions_changed)
    known = [*before.members_before, *(arrival.member for arrival in before.arrivals)]
    return member is not None and member.client in {other.client for other in known}


def over_capacity(rebalance: Rebalance) -> Finding:
    size = len(rebalance.members_before)
    clause = f"the group was loaded with {count(size, 'member')}, more than group.max.size allows"
    return Finding("OVER_CAPACITY", "proof", clause, (Evidence("members", str(size), rebalance.opened_at_ms),))


def append_failed(rebalance: Rebalance) -> Finding:
    error = rebalance.trigger.error or "unknown"
    clause = f"the broker could not write the previous generation ({error})"
    return Finding("ASSIGNMENT_STORE_FAILED", "proof", clause, (Evidence("error", error, rebalance.opened_at_ms),))


def downgraded(rebalance: Rebalance) -> Finding:
    if rebalance.trigger.member is None:
        clause = "the group became a classic group again, and was loaded before its members rejoined"
    else:
        member = round_beginning(rebalance).member_text
        clause = f"{member}, the last of the consumer protocol, left, and the group is classic again"
    evidence = (
        Evidence("converted", f"to the classic protocol, at {rebalance.from_generation}", rebalance.opened_at_ms),
    )
    return Finding("PROTOCOL_MIGRATION", "proof", clause, evidence)


def converted(rebalance: EpochRebalance, raised: EpochRaised) -> Finding:
    begin, conversion = raise_beginning(rebalance, raised), rebalance.converted
    if conversion is None:  # the journal entry of the group's conversion has expired
        fact = begin.fact("converted", "from the classic protocol")
        return Finding("PROTOCOL_MIGRATION", "proof", "the classic group became a consumer group", (fact,))
    size = count(len(conversion.members), "member")
    by = f"member {name_and_place(conversion.by)}" if conversion.by is not None else begin.member_text
    clause = f"{by} joined with the consumer protocol, and the classic group of {size} became a consumer group"
    fact = begin.fact("converted", f"generation {conversion.epoch} became the group epoch")
    return Finding("PROTOCOL_MIGRATION", "proof", clause, (fact,))


def epoch_unexplained(_this: EpochRebalance, raised: EpochRaised) -> Finding:
    fact = Evidence("epoch", f"raised to {raised.epoch}, and no record of a member differs", raised.at_ms)
    unseen = Evidence("unknown", "brokers before 4.1 do not record topic metadata")
    clause = "the epoch rose without a visible cause: subscribed topics may have changed"
    return Finding("UNEXPLAINED", "low", clause, (fact, unseen))


def seen_converted(rebalance: SeenRebalance) -> Finding:
    fact = rebalance.fact("converted", "the group's records as a consumer group ended with this generation")
    clause = "the consumer group became a classic group again"
    return Finding("PROTOCOL_MIGRATION", "high", clause, (fact,))


def seen_failover(rebalance: SeenRebalance) -> Finding:
    at_ms = rebalance.failover_ms if rebalance.loaded is None else rebalance.loaded.at_ms
    what = "the group's __consumer_offsets partition has a new leader epoch"
    if rebalance.loaded is None and not rebalance.coordinator_moved:
        what = "the watcher reached no broker until then"
    moved = Evidence("coordinator_moved", what, rebalance.after.at_ms if at_ms is None else at_ms)
    unseen = Evidence("unknown", "which clients rejoined, and their reasons: a watcher sees no requests")
    clause = "the group's coordinator moved or restarted, and members did not find the coordinator in time"
    return Finding("COORDINATOR_FAILOVER", "medium", clause, (moved, unseen))


def seen_unexplained(rebalance: SeenRebalance) -> Finding:
    same = rebalance.fact("same", "the same members, subscriptions, assignor and topics as before")
    unseen = Evidence("unknown", "the requesting client and its reason: a watcher sees no requests")
    return Finding("UNEXPLAINED", "low", "a member rejoined, and no record differs", (same, unseen))
