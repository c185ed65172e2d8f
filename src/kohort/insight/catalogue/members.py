"""Causes that are about members: who came, who went, who fell silent, who was too slow."""

from __future__ import annotations

from typing import Final

from kohort.insight.catalogue.entry import CauseEntry

_SILENT: Final = "Preparing to rebalance group ... (reason: removing member ... on heartbeat expiration)"

MEMBER_CAUSES: Final = (
    CauseEntry(
        code="GROUP_FORMING",
        sentence="The group was empty, and somebody came.",
        proof="the first JoinGroup, or heartbeat with epoch 0, while the group had no members",
        look_alikes=(("NEW_MEMBER", "there were members already"),),
        kafka_log="Preparing to rebalance group ... with old generation ... (reason: Adding new member ...)",
    ),
    CauseEntry(
        code="NEW_MEMBER",
        sentence="A member joined that was not there before.",
        proof="its member id was in no generation before, and no removal or refusal of the same client precedes it",
        look_alikes=(
            ("CLIENT_RESET", "the same client was put out, or refused, within the ten minutes before"),
            ("STATIC_REJOIN", "it has a group.instance.id that the group knows"),
        ),
        kafka_log="Preparing to rebalance group ... (reason: Adding new member ...)",
    ),
    CauseEntry(
        code="CLIENT_RESET",
        sentence="A client that had been put out, or did not poll in time, joined anew.",
        proof="a removal or a refusal of the same client id at the same address, within ten minutes before it joined",
        look_alikes=(("NEW_MEMBER", "nothing of the same client precedes it"),),
        advice="see the rebalance in which the member was removed",
        kafka_log="Preparing to rebalance group ... (reason: Adding new member ...)",
    ),
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
        code="MEMBER_GONE",
        sentence="A member left, or its session ended; which of the two cannot be told from outside.",
        proof="it is not in the records of the group any more: the cluster was only watched (kohort watch)",
        look_alikes=(
            ("MEMBER_LEFT", "it committed up to the end, and was gone before its session could have ended"),
            ("SESSION_TIMEOUT", "its last sign of life was a session before"),
        ),
        advice="look at the log of that client; a kohort broker knows which it was",
    ),
    CauseEntry(
        code="STATIC_RESTART",
        sentence="A static member came back under a new member id, and kept its partitions: no rebalance.",
        proof="a JoinGroup or heartbeat with its instance id and no member id, in a stable group",
        look_alikes=(("STATIC_DUPLICATE", "the process before still runs"),),
        kafka_log="Updating metadata for static member ...",
        kind="event",
    ),
    CauseEntry(
        code="STATIC_REJOIN",
        sentence="A static member came back, and the group could not go on as it was.",
        proof="a JoinGroup with its instance id, and another selected protocol, or a rebalance under way",
        look_alikes=(("STATIC_RESTART", "the group went on"),),
        advice="give every member the same list of assignors before restarting one by one",
        kafka_log="Updating metadata for static member ...",
    ),
    CauseEntry(
        code="STATIC_DUPLICATE",
        sentence="Two processes have the same group.instance.id: the earlier one is refused.",
        proof="FENCED_INSTANCE_ID to a request of the replaced member: it still ran",
        look_alikes=(
            ("STATIC_RESTART", "the process before was not heard of again; watched from outside the two are the same"),
        ),
        advice="give every process a group.instance.id of its own, and stop the one that was taken over",
        kind="event",
    ),
    CauseEntry(
        code="STATIC_EXPIRED",
        sentence="A static member did not come back within its session.",
        proof="the session's timer of a member with an instance id",
        look_alikes=(("SESSION_TIMEOUT", "a member without an instance id"),),
        advice="its partitions had no owner all the while: raise session.timeout.ms above its restart time",
        kafka_log=_SILENT,
    ),
    CauseEntry(
        code="GROUP_FULL",
        sentence="Somebody was not let in: the group has as many members as group.max.size allows.",
        proof="GROUP_MAX_SIZE_REACHED in the broker's answer",
        look_alikes=(
            ("OVER_CAPACITY", "the group had more members than allowed when it was loaded"),
            ("INCOMPATIBLE_ASSIGNORS", "the group has room, and accepts none of the client's assignors"),
        ),
        advice="raise group.max.size, or run fewer members",
        kind="event",
    ),
    CauseEntry(
        code="INCOMPATIBLE_ASSIGNORS",
        sentence="A client could not join: the group accepts none of its assignors.",
        proof="INCONSISTENT_GROUP_PROTOCOL in the coordinator's answer to JoinGroup, and the assignors of both sides",
        look_alikes=(
            ("GROUP_FULL", "the group has as many members as it may have"),
            ("ASSIGNOR_CHANGED", "a member changed its assignors, and all members still share one"),
        ),
        advice="give every member a common entry in partition.assignment.strategy; to change the assignor, add the new "
        "one to all members first, and remove the old one in a second deploy; if another program uses this group.id, "
        "give it a group of its own",
        kind="event",
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
        code="REVOCATION_TIMEOUT",
        sentence="A member of a modern group did not give up what it was told to within its rebalance timeout.",
        proof="the timer of the revocation (KIP-848)",
        look_alikes=(("SESSION_TIMEOUT", "its heartbeats stopped, too"),),
        advice="its revoke callback took longer than max.poll.interval.ms, or it did not poll; shorten that",
        kafka_log="Member ... fenced from the group because it failed to transition from epoch ... within ...ms.",
    ),
)
