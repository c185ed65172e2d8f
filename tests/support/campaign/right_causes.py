"""Right causes of each action of the campaign.

A cause is *right* if the table in ``kohort explain`` names it for the action, or if it means the same from the point of
observation. A *broader* cause includes the right one, and is right at ``medium`` or ``low`` only. Some causes are
right on one of the two brokers only: kohort keeps a journal, Apache Kafka is watched from outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

OURS: Final = "kohort"
APACHE: Final = "Apache Kafka"
GROUNDS: Final = (OURS, APACHE)
UNSURE: Final = ("medium", "low")
UNNAMED: Final = "UNEXPLAINED"
"""Cause of an unexplained rebalance: neither right nor wrong."""

LEADERS_OWN: Final = "LEADER_REJOIN"
"""A rebalance without an action: leaders of Java and librdkafka join again if the group's topics change
with its members.
"""


@dataclass(frozen=True, slots=True)
class Truth:
    """True cause of an action, and other causes that count as right."""

    cause: str
    also: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Causes with the same meaning, by broker."""
    broader: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Broader causes, by broker."""
    because: str = ""
    """Reason for the additional causes."""

    def allows(self, ground: str, cause: str, confidence: str) -> bool:
        """Return True if a cause with this confidence is right on a broker."""
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
        because="the member id is new; CLIENT_RESET also identifies the client",
    ),
    Truth(
        "RESTARTED",
        also=_everywhere("CLIENT_RESET", "NEW_MEMBER"),
        because="new process with client id and address of a removed member, as for CLIENT_RESET; also a new member",
    ),
    Truth(
        "MEMBER_LEFT",
        broader={APACHE: ("MEMBER_DEPARTED",)},
        because="a watcher does not see the request",
    ),
    Truth(
        "SESSION_TIMEOUT.process_died",
        also={APACHE: ("SESSION_TIMEOUT",)},
        broader={OURS: ("SESSION_TIMEOUT",), APACHE: ("MEMBER_DEPARTED",)},
        because="a watcher does not see connections; SESSION_TIMEOUT has no reason of the silence",
    ),
    Truth(
        "SESSION_TIMEOUT.frozen",
        also={APACHE: ("SESSION_TIMEOUT",)},
        broader={OURS: ("SESSION_TIMEOUT",), APACHE: ("MEMBER_DEPARTED",)},
        because="a watcher does not see connections; SESSION_TIMEOUT has no reason of the silence",
    ),
    Truth("MAX_POLL_EXCEEDED", broader={APACHE: ("MEMBER_DEPARTED",)}, because="the reason is part of a request"),
    Truth("STATIC_RESTART"),
    Truth(
        "STATIC_EXPIRED",
        broader={APACHE: ("MEMBER_DEPARTED", "SESSION_TIMEOUT")},
        because="the session of a static member expires like others",
    ),
    Truth(
        "STATIC_DUPLICATE",
        broader={APACHE: ("STATIC_RESTART",)},
        because="the record is the same; only rejected requests show that the previous process still runs",
    ),
    Truth("STATIC_REJOIN", also=_everywhere("ASSIGNOR_CHANGED"), because="the member returned with other assignors"),
    Truth("SUBSCRIPTION_CHANGED"),
    Truth("PARTITIONS_CHANGED"),
    Truth(
        "TOPIC_CREATED",
        also=_everywhere("REGEX_RESOLVED"),
        broader={APACHE: ("SUBSCRIPTION_CHANGED",)},
        because="the coordinator resolves expressions of consumer groups; a classic member's record has its topics "
        "without the expression",
    ),
    Truth(
        "TOPIC_DELETED",
        also={OURS: ("REGEX_RESOLVED", "JOIN_TIMEOUT"), APACHE: ("REGEX_RESOLVED",)},
        broader={APACHE: ("SUBSCRIPTION_CHANGED",)},
        because="as for TOPIC_CREATED; Java's client retries its commit for a deleted topic and misses the rebalance",
    ),
    Truth(
        "ADMIN_REMOVED",
        broader={APACHE: ("MEMBER_LEFT", "MEMBER_DEPARTED")},
        because="the request is an ordinary LeaveGroup, and a watcher does not see its sender",
    ),
    Truth("USER_ENFORCED"),
    Truth("COOPERATIVE_FOLLOWUP"),
    Truth(LEADERS_OWN),
    Truth(
        "COORDINATOR_FAILOVER",
        broader=_everywhere("SESSION_TIMEOUT", "MEMBER_DEPARTED"),
        because="members with slow reconnects are removed; the catalog has SESSION_TIMEOUT for the time after a "
        "failover",
    ),
    Truth(
        "BROKER_STALL",
        broader={APACHE: ("SESSION_TIMEOUT", "MEMBER_DEPARTED", "STATIC_EXPIRED")},
        because="the session expired; a watcher does not see the reason",
    ),
    Truth("GROUP_DELETED"),
)
AFTERWARDS: Final = (
    "a rebalance that the leader starts after a metadata change is right as LEADER_REJOIN",
    "a removed member, or one without polls, may return within the same rebalance without a second report",
    "after a failover SESSION_TIMEOUT and MEMBER_DEPARTED are broader causes, as in the catalog",
    "a group that became empty by an action on its broker forms again",
    "a single member without polls leaves an empty group, which forms again at its return",
    "a client may notice an action on topics during the next action",
    "a static member that joins again after a time without coordinator may be reported as a restart, not counted",
    "a rejected commit (ZOMBIE_COMMIT) never counts",
    "an action without a change of topics is not missed",
    "sessions and poll intervals became longer, because slow members were removed",
)
"""Entries that were added after the first results were known; all others were written before."""
TRUTHS: Final = {truth.cause: truth for truth in _ALL}
ALWAYS_TRUE: Final = "ZOMBIE_COMMIT"
"""An event without a rebalance that the coordinator's own response proves: it never counts."""
FOLLOW: Final = {
    "STATIC_RESTART": ("broker_restart", "broker_stall"),
    "STATIC_DUPLICATE": ("broker_restart", "broker_stall"),
}
"""Events without a rebalance that these actions can cause in clients: reported or not, they do not count.

librdkafka joins again under another member id and the same instance id after a session without a coordinator.
"""
PATTERNS: Final = {
    "rolling_restart": ("ROLLING_DEPLOY",),
    "scale_out": ("SCALE_OUT",),
    "scale_in": ("SCALE_IN",),
    "crash_loop": ("CRASH_LOOP",),
}
"""Actions that are a pattern, and the names of that pattern."""
