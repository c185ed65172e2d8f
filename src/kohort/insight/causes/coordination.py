"""Coordinators: failovers, lost records, conversions, limits; and rebalances without a known cause."""

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
        sentence="The group has another coordinator, or its broker started anew.",
        proof="the group was read from its log; a rebalance that was under way was refused and had to begin again, or "
        "a client joined again within a minute while nothing else differs",
        look_alikes=(
            ("CLIENT_RESET", "the coordinator stayed, and the member was put out"),
            ("LEADER_REJOIN", "the group was not read from its log lately"),
        ),
        advice="expected when a broker restarts; a stable group loses nothing by it",
        kafka_log="Finished loading of metadata from __consumer_offsets-...",
    ),
    CauseEntry(
        code="GENERATION_LOST",
        sentence="Members know a newer generation than the log of their coordinator.",
        proof="ILLEGAL_GENERATION to members that named a later generation than the one that was read from the log",
        look_alikes=(("COORDINATOR_FAILOVER", "the members' generation is the one in the log"),),
        advice="records of __consumer_offsets were lost: look at its replicas, and at unclean elections",
    ),
    CauseEntry(
        code="ASSIGNMENT_STORE_FAILED",
        sentence="The broker could not write the generation.",
        proof="the error of the append to __consumer_offsets",
        advice="the broker could not write; look at its disk",
        kafka_log="Error ... when storing group assignment during SyncGroup",
    ),
    CauseEntry(
        code="PROTOCOL_MIGRATION",
        sentence="The group went from the classic protocol to the new one, or back.",
        proof="the conversion, as the coordinator wrote it",
        kafka_log="Converted the classic group to a consumer group.",
    ),
    CauseEntry(
        code="OVER_CAPACITY",
        sentence="The group was loaded with more members than group.max.size allows.",
        proof="the number of members that were read from the log",
        look_alikes=(("GROUP_FULL", "a member was turned away at the door"),),
        advice="raise group.max.size, or run fewer members",
        kafka_log="Freshly-loaded group ... (size ...) is over capacity ...",
    ),
    CauseEntry(
        code="UNEXPLAINED",
        sentence="The group rebalanced, and nothing that is written tells why.",
        proof="the records before and after differ in nothing that tells: the cluster was only watched (kohort watch)",
        look_alikes=(("LEADER_REJOIN", "a kohort broker saw the leader join again"),),
        advice="read the broker's log at that time: Apache Kafka writes the reason that the client gave (KIP-800)",
    ),
)


def after_failover(this: Rebalance, cause_of: Callable[[Rebalance], Finding]) -> Finding | None:
    """Find the cause of a rebalance that the loading of the group began."""
    loaded = this.loaded
    if loaded is None or this.trigger.event not in ("member_joined", "member_rejoined"):
        return None
    since = seconds(this.opened_at_ms - loaded.at_ms)
    evidence = [Evidence("group_loaded", f"at generation {loaded.generation}, {since} before", loaded.at_ms)]
    if this.newer is not None:
        newer = this.newer
        told = f"{name_of(newer.who)} named generation {newer.generation} ({newer.api}: {newer.error})"
        clause = f"members knew generation {newer.generation}, and the log of their coordinator {newer.current}"
        return Finding("GENERATION_LOST", "proof", clause, (*evidence, Evidence("newer_generation", told, newer.at_ms)))
    before = this.interrupted
    if before is None or not _goes_on(this, before):
        return None
    cut = f"the rebalance after generation {before.from_generation} was under way when its coordinator went"
    evidence.append(Evidence("interrupted", cut, before.opened_at_ms))
    first = cause_of(before).clause
    clause = f"the coordinator went while a rebalance was under way ({first}), and it began anew"
    return Finding("COORDINATOR_FAILOVER", "proof", clause, tuple(evidence))


def since_failover(this: Rebalance) -> Finding | None:
    """Find the cause of a rebalance by a client that had just lost its coordinator, and changed nothing else."""
    loaded = this.loaded_lately
    if loaded is None:
        return None
    begin = round_beginning(this)
    since = seconds(this.opened_at_ms - loaded.at_ms)
    fact = Evidence("group_loaded", f"at generation {loaded.generation}, {since} before", loaded.at_ms)
    if this.trigger.event == "member_rejoined":
        if differs(this):
            return None
        clause = f"{begin.member} joined again {since} after its coordinator had begun anew, and nothing else differs"
        return Finding("COORDINATOR_FAILOVER", "high", clause, (fact, *begin.said))
    who = this.trigger.who
    if this.trigger.event != "member_joined" or who is None or this.returned is not None or not who.client_id:
        return None
    if (who.client_id, who.client_host) not in {(known.client_id, known.client_host) for known in loaded.members}:
        return None
    known = Evidence("known_client", f"a member of client {printable(who.client_id)} was read from the log")
    clause = f"{begin.member} joined anew {since} after its coordinator had begun anew"
    return Finding("COORDINATOR_FAILOVER", "medium", clause, (fact, known, *begin.said))


def _goes_on(this: Rebalance, before: Rebalance) -> bool:
    """Tell whether the member repeats the request that its coordinator lost."""
    who, change = this.trigger.who, this.trigger.change or Change()
    if this.trigger.event == "member_rejoined":
        same = change.protocols_before == change.protocols_after
        return same and not (change.topics_added or change.topics_removed or change.partitions_changed)
    known = [*before.members_before, *(arrival.who for arrival in before.arrivals)]
    clients = {(member.client_id, member.client_host) for member in known}
    return who is not None and (who.client_id, who.client_host) in clients


def over_capacity(this: Rebalance) -> Finding:
    size = len(this.members_before)
    clause = f"the group was loaded with {count(size, 'member')}, more than group.max.size allows"
    return Finding("OVER_CAPACITY", "proof", clause, (Evidence("members", str(size), this.opened_at_ms),))


def append_failed(this: Rebalance) -> Finding:
    error = this.trigger.error or "unknown"
    clause = f"the broker could not write the generation before ({error})"
    return Finding("ASSIGNMENT_STORE_FAILED", "proof", clause, (Evidence("error", error, this.opened_at_ms),))


def downgraded(this: Rebalance) -> Finding:
    if this.trigger.who is None:
        clause = "the group became a classic one again, and was loaded before its members had joined it"
    else:
        clause = (
            f"{round_beginning(this).member}, the last of the new protocol, went, and the group is a classic one again"
        )
    evidence = (Evidence("converted", f"to the classic protocol, at {this.from_generation}", this.opened_at_ms),)
    return Finding("PROTOCOL_MIGRATION", "proof", clause, evidence)


def converted(this: EpochRebalance, raised: EpochRaised) -> Finding:
    begin, conversion = raise_beginning(this, raised), this.converted
    if conversion is None:  # the conversion itself is not in this journal any more
        fact = begin.fact("converted", "from the classic protocol")
        return Finding("PROTOCOL_MIGRATION", "proof", "the classic group became a modern one", (fact,))
    size = count(len(conversion.members), "member")
    by = f"member {name_and_place(conversion.by)}" if conversion.by is not None else begin.member
    clause = f"{by} came with the consumer protocol, and the classic group of {size} became a modern one"
    fact = begin.fact("converted", f"generation {conversion.epoch} became the group epoch")
    return Finding("PROTOCOL_MIGRATION", "proof", clause, (fact,))


def epoch_unexplained(_this: EpochRebalance, raised: EpochRaised) -> Finding:
    fact = Evidence("epoch", f"it rose to {raised.epoch}, and no record of a member differs", raised.at_ms)
    unseen = Evidence("unknown", "brokers before 4.1 write nothing of the topics that they know")
    clause = "the epoch rose, and the records do not say why: topics that members subscribe to may have changed"
    return Finding("UNEXPLAINED", "low", clause, (fact, unseen))


def seen_converted(this: SeenRebalance) -> Finding:
    fact = this.fact("converted", "its records of a modern group ended, and this generation began with them")
    clause = "the modern group became a classic one again"
    return Finding("PROTOCOL_MIGRATION", "high", clause, (fact,))


def seen_failover(this: SeenRebalance) -> Finding:
    at_ms = this.after.at_ms if this.loaded is None else this.loaded.at_ms
    moved = Evidence("coordinator_moved", "the partition of its records has another leader epoch than before", at_ms)
    unseen = Evidence(
        "unknown", "who joined anew, and whether that was because of it; requests are not seen from outside"
    )
    clause = "its coordinator moved, or began anew, and members did not find it again in time"
    return Finding("COORDINATOR_FAILOVER", "medium", clause, (moved, unseen))


def seen_unexplained(this: SeenRebalance) -> Finding:
    same = this.fact("same", "the same members, subscriptions, assignor and topics as before")
    unseen = Evidence("unknown", "who asked for it and why: requests, and reasons in them, are not seen from outside")
    return Finding(
        "UNEXPLAINED", "low", "some member joined again, and nothing that is written differs", (same, unseen)
    )
