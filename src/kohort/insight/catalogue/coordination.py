"""Causes that are about the coordinator and its administration, and events of a group without a rebalance."""

from __future__ import annotations

from typing import Final

from kohort.insight.catalogue.entry import CauseEntry

COORDINATION_CAUSES: Final = (
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
        code="LEADER_LOST",
        sentence="The leader was lost between joining and assigning.",
        proof="the timer of the SyncGroup phase, with the leader among those who are missing",
        look_alikes=(("SYNC_TIMEOUT", "the leader had answered"),),
        advice="the leader ended or froze while it computed the assignment",
        kafka_log="Preparing to rebalance group ... (reason: Removing ... on pending sync request expiration)",
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
        code="CONFIG_CHANGED",
        sentence="Options of the group were altered while it was there.",
        proof="the request that altered them: who sent it, and what each option was and is",
        look_alikes=(("ASSIGNOR_CHANGED", "a client has another list of assignors"),),
        advice="new timeouts hold for members from their next heartbeat on",
        kind="event",
    ),
    CauseEntry(
        code="OFFSETS_RESET",
        sentence="Committed offsets of the group were set by somebody who is no member.",
        proof="a commit without a member that moved offsets back, or to where nobody had read to",
        look_alikes=(("UNFENCED_COMMIT", "offsets moved on, as those of a reader do"),),
        advice="records between the old and the new position are read again, or never",
        kind="event",
    ),
    CauseEntry(
        code="UNFENCED_COMMIT",
        sentence="Somebody who is no member commits offsets of this group.",
        proof="commits that were accepted without a member id and a generation",
        look_alikes=(("OFFSETS_RESET", "offsets were moved back"),),
        advice="a consumer with assign() should have a group.id of its own; nothing fences it from the group's members",
        kind="event",
    ),
    CauseEntry(
        code="ZOMBIE_COMMIT",
        sentence="A member that was put out, or is behind, went on working: its commits were refused.",
        proof="UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, STALE_MEMBER_EPOCH or a fencing error, in answer to its commits",
        look_alikes=(("UNFENCED_COMMIT", "the commit named no member, and was accepted"),),
        advice="what it handled since it was out is handled twice: make handling idempotent, and look why it was out",
        kind="event",
    ),
    CauseEntry(
        code="GROUP_DELETED",
        sentence="The group was deleted, or its last offset expired.",
        proof="the request, or the sweep of expired offsets",
        kind="event",
    ),
)
