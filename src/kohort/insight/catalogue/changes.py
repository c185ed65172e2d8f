"""Causes that are about what is read and how it is shared out: subscriptions, topics, assignors, what clients ask
for."""

from __future__ import annotations

from typing import Final

from kohort.insight.catalogue.entry import CauseEntry

_REJOINED: Final = "Preparing to rebalance group ... (reason: Updating metadata for member ... during Stable)"
_LEADER: Final = "Preparing to rebalance group ... (reason: leader ... re-joining group during Stable)"
_BUMPED: Final = "Bumped group epoch to ... with metadata hash ..."

CHANGE_CAUSES: Final = (
    CauseEntry(
        code="SUBSCRIPTION_CHANGED",
        sentence="A member subscribes to other topics than before.",
        proof="the topics of its subscription, before and after",
        look_alikes=(("TOPIC_CREATED", "the topic is new, and matches the member's pattern"),),
        advice="members of one group should subscribe to the same topics; change them together",
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="TOPIC_CREATED",
        sentence="A topic that the group reads was made.",
        proof="the topic came after the generation before: the broker's own list of topics, or the new target",
        look_alikes=(
            ("SUBSCRIPTION_CHANGED", "the topic had been there, and the member had not subscribed to it"),
            ("PARTITIONS_CHANGED", "the topic had been there with fewer partitions"),
        ),
        advice="members find it one after another, within metadata.max.age.ms: expect several rebalances, not one",
        kafka_log=f"{_LEADER}; {_BUMPED}",
    ),
    CauseEntry(
        code="TOPIC_DELETED",
        sentence="A topic that the group reads was deleted.",
        proof="the topic is not in the broker's list any more",
        look_alikes=(("SUBSCRIPTION_CHANGED", "the topic is still there"),),
        advice="stop reading what is to be deleted first",
        kafka_log=f"{_LEADER}; {_BUMPED}",
    ),
    CauseEntry(
        code="PARTITIONS_CHANGED",
        sentence="Topics that the group reads have other numbers of partitions.",
        proof="the numbers of partitions when the generation began, and now; or the client's own words (KIP-800)",
        look_alikes=(("LEADER_REJOIN", "the numbers are the same"),),
        kafka_log=f"{_LEADER}; {_BUMPED}",
    ),
    CauseEntry(
        code="REGEX_RESOLVED",
        sentence="A regular expression that members of a modern group subscribe by matches other topics.",
        proof="what the coordinator found it to match, before and after",
        look_alikes=(("SUBSCRIPTION_CHANGED", "a member has another expression"),),
        kafka_log=_BUMPED,
    ),
    CauseEntry(
        code="RACK_CHANGED",
        sentence="A member runs in another rack than before.",
        proof="the rack in its subscription, before and after (KIP-881)",
        look_alikes=(("METADATA_CHANGED", "the rack is the same"),),
        advice="give each process one client.rack, for as long as it runs",
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="ASSIGNOR_CHANGED",
        sentence="A member has another list of assignors, or most members prefer another one now.",
        proof="the protocols that it named, before and after; of a modern group the votes",
        advice="expected while a new list of assignors is rolled out",
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="METADATA_CHANGED",
        sentence="A member joined again with other metadata, of which the broker cannot read more.",
        proof="its subscription differs in its bytes, and in nothing that is named above; medium where it owns other "
        "partitions, as it may come late for what was done before",
        look_alikes=(("COOPERATIVE_FOLLOWUP", "it owns other partitions, and the round before took some away"),),
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="COOPERATIVE_FOLLOWUP",
        sentence="The second half of a cooperative rebalance: what was given up is given out.",
        proof="a member rejoined that owns other partitions and differs in nothing else, after a round that withheld "
        "some",
        look_alikes=(("LEADER_REJOIN", "the round before withheld nothing"),),
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="LEADER_REJOIN",
        sentence="The leader joined again, and nothing that the coordinator knows of differs.",
        proof="its JoinGroup in a stable group, with the same metadata, and topics with as many partitions as before",
        look_alikes=(
            ("PARTITIONS_CHANGED", "numbers of partitions differ"),
            ("PERIODIC", "it does so again and again, at a fixed period"),
        ),
        advice="look into the leader's log; at a fixed period it is usually a client that refreshes its metadata",
        kafka_log=_LEADER,
    ),
    CauseEntry(
        code="USER_ENFORCED",
        sentence="The application asked for it (enforceRebalance, enforce_rebalance).",
        proof="the reason that the client gave (KIP-800): its own words, or the application's",
        look_alikes=(("LEADER_REJOIN", "no reason was given"),),
        kafka_log=_LEADER,
    ),
    CauseEntry(
        code="UNEXPLAINED",
        sentence="The group rebalanced, and nothing that is written tells why.",
        proof="the records before and after differ in nothing that tells: the cluster was only watched (kohort watch)",
        look_alikes=(("LEADER_REJOIN", "a kohort broker saw the leader join again"),),
        advice="read the broker's log at that time: Apache Kafka writes the reason that the client gave (KIP-800)",
    ),
    CauseEntry(
        code="ASSIGNMENT_MISMATCH",
        sentence="A member was given what it no longer subscribes to, and asked again.",
        proof="the reason that the client gave (KIP-800)",
        look_alikes=(("SUBSCRIPTION_CHANGED", "its topics differ from those it joined with"),),
        advice="the subscription changed while the group rebalanced; nothing to do unless it repeats itself",
        kafka_log=_REJOINED,
    ),
)
