"""What is right to say of each thing that the campaign does: one table, and what was added to it later.

A name is *right* if it is that of the table in ``kohort explain``, or one that means the same seen from where it was
seen. A *broader* name leaves open what the right one says, and is right at ``medium`` or ``low`` only. Where a name is
right on one of the two brokers alone, it is since the other could know more: ours keeps a journal, Apache Kafka is
watched from outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

OURS: Final = "kohort"
APACHE: Final = "Apache Kafka"
GROUNDS: Final = (OURS, APACHE)
UNSURE: Final = ("medium", "low")
UNNAMED: Final = "UNEXPLAINED"
"""The word for not knowing: never right, and never wrong."""

LEADERS_OWN: Final = "LEADER_REJOIN"
"""A rebalance that no action makes: the leaders of Java and librdkafka join again where their view of topics changes
with the members, as ones that read other topics come or go."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What was done, in the words of the catalogue, and what else may be said of it where."""

    cause: str
    also: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that are as right, by broker."""
    broader: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that leave something open, by broker."""
    because: str = ""
    """Why they are."""

    def allows(self, ground: str, cause: str, confidence: str) -> bool:
        """Tell whether it is right to say so on a broker, this surely."""
        if cause == self.cause or cause in self.also.get(ground, ()):
            return True
        return confidence in UNSURE and cause in self.broader.get(ground, ())


def _everywhere(*names: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(GROUNDS, names)


_ALL: Final = (
    Truth("GROUP_FORMING"),
    Truth("NEW_MEMBER"),
    Truth(
        "CLIENT_RESET",
        broader=_everywhere("NEW_MEMBER"),
        because="it has a new member id; that it is the same client is more than that",
    ),
    Truth(
        "RESTARTED",
        also=_everywhere("CLIENT_RESET", "NEW_MEMBER"),
        because="a new process under the client id of one that was put out: the catalogue knows CLIENT_RESET by the "
        "removal of the same client id and address, and a new member it is as well",
    ),
    Truth(
        "MEMBER_LEFT",
        broader={APACHE: ("MEMBER_GONE",)},
        because="the request is not seen from outside",
    ),
    Truth(
        "SESSION_TIMEOUT.process_died",
        also={APACHE: ("SESSION_TIMEOUT",)},
        broader={OURS: ("SESSION_TIMEOUT",), APACHE: ("MEMBER_GONE",)},
        because="connections are not seen from outside; SESSION_TIMEOUT does not say why it fell silent",
    ),
    Truth(
        "SESSION_TIMEOUT.frozen",
        also={APACHE: ("SESSION_TIMEOUT",)},
        broader={OURS: ("SESSION_TIMEOUT",), APACHE: ("MEMBER_GONE",)},
        because="connections are not seen from outside; SESSION_TIMEOUT does not say why it fell silent",
    ),
    Truth("MAX_POLL_EXCEEDED", broader={APACHE: ("MEMBER_GONE",)}, because="the reason is in a request"),
    Truth("STATIC_RESTART"),
    Truth(
        "STATIC_EXPIRED",
        broader={APACHE: ("MEMBER_GONE", "SESSION_TIMEOUT")},
        because="a static member's session ends as any other's",
    ),
    Truth(
        "STATIC_DUPLICATE",
        broader={APACHE: ("STATIC_RESTART",)},
        because="the record is the same, and that the process before still runs shows only in how it is refused",
    ),
    Truth("STATIC_REJOIN", also=_everywhere("ASSIGNOR_CHANGED"), because="it came back with other assignors"),
    Truth("SUBSCRIPTION_CHANGED"),
    Truth("PARTITIONS_CHANGED"),
    Truth(
        "TOPIC_CREATED",
        also=_everywhere("REGEX_RESOLVED"),
        broader={APACHE: ("SUBSCRIPTION_CHANGED",)},
        because="the coordinator resolves expressions of the new protocol; a classic member's record lists the topics "
        "that it found, and has no expression",
    ),
    Truth(
        "TOPIC_DELETED",
        also=_everywhere("REGEX_RESOLVED"),
        broader={APACHE: ("SUBSCRIPTION_CHANGED",)},
        because="as for TOPIC_CREATED",
    ),
    Truth(
        "ADMIN_REMOVED",
        broader={APACHE: ("MEMBER_LEFT", "MEMBER_GONE")},
        because="it is a LeaveGroup like any other, and who sent it is not seen from outside",
    ),
    Truth("USER_ENFORCED"),
    Truth("COOPERATIVE_FOLLOWUP"),
    Truth(LEADERS_OWN),
    Truth(
        "COORDINATOR_FAILOVER",
        broader=_everywhere("SESSION_TIMEOUT", "MEMBER_GONE"),
        because="members whose clients wait too long before they connect again are put out; the catalogue knows "
        "SESSION_TIMEOUT by a broker that had just taken over",
    ),
    Truth(
        "BROKER_STALL",
        broader={APACHE: ("SESSION_TIMEOUT", "MEMBER_GONE", "STATIC_EXPIRED")},
        because="the session did end; whose fault that was is not seen from outside",
    ),
    Truth("GROUP_DELETED"),
)
AFTERWARDS: Final = (
    "a rebalance that begins with a leader's own change of view is right as LEADER_REJOIN",
    "a member that was removed, or did not poll, may come back within the same round, and need not be told twice",
    "after a failover SESSION_TIMEOUT and MEMBER_GONE are broader names, as the catalogue has them",
    "a group that was emptied by what was done to its broker forms anew",
    "a member that was alone and did not poll leaves an empty group, which forms anew when it comes back",
    "of what is done to topics a client may take notice when the next thing is being done",
    "a static member that begins anew without a coordinator may be told as a restart, which does not count",
    "a commit that is refused (ZOMBIE_COMMIT) does not count, whatever was done",
    "an action that changed nothing about topics is not missed",
    "sessions and poll intervals became longer, as members were put out that were merely slow",
)
"""What was added after the first results had been looked at. The table was written before, but for these."""
TRUTHS: Final = {truth.cause: truth for truth in _ALL}
ALWAYS_TRUE: Final = "ZOMBIE_COMMIT"
"""An event without a rebalance that the coordinator's own answer proves, whatever was done: it does not count."""
FOLLOW: Final = {
    "STATIC_RESTART": ("broker_restart", "broker_stall"),
    "STATIC_DUPLICATE": ("broker_restart", "broker_stall"),
}
"""Events without a rebalance that are true of what these actions do to clients: told or not, neither counts. librdkafka
begins anew where it was without a coordinator for a session: under another member id, and the same instance id."""
PATTERNS: Final = {
    "rolling_restart": ("ROLLING_DEPLOY",),
    "scale_out": ("SCALE_OUT",),
    "scale_in": ("SCALE_IN",),
    "crash_loop": ("CRASH_LOOP",),
}
"""Actions that are a pattern, and its names."""
