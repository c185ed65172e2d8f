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
        because="the member id is new; CLIENT_RESET also identifies the client",
    ),
    Truth(
        "RESTARTED",
        also=_everywhere("CLIENT_RESET", "NEW_MEMBER"),
        because="new process with the client id of a removed member: CLIENT_RESET requires the same client id and "
        "address, and NEW_MEMBER is also true",
    ),
    Truth(
        "MEMBER_LEFT",
        broader={APACHE: ("MEMBER_GONE",)},
        because="a watcher does not see the request",
    ),
    Truth(
        "SESSION_TIMEOUT.process_died",
        also={APACHE: ("SESSION_TIMEOUT",)},
        broader={OURS: ("SESSION_TIMEOUT",), APACHE: ("MEMBER_GONE",)},
        because="a watcher does not see connections; SESSION_TIMEOUT has no reason of the silence",
    ),
    Truth(
        "SESSION_TIMEOUT.frozen",
        also={APACHE: ("SESSION_TIMEOUT",)},
        broader={OURS: ("SESSION_TIMEOUT",), APACHE: ("MEMBER_GONE",)},
        because="a watcher does not see connections; SESSION_TIMEOUT has no reason of the silence",
    ),
    Truth("MAX_POLL_EXCEEDED", broader={APACHE: ("MEMBER_GONE",)}, because="the reason is part of a request"),
    Truth("STATIC_RESTART"),
    Truth(
        "STATIC_EXPIRED",
        broader={APACHE: ("MEMBER_GONE", "SESSION_TIMEOUT")},
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
        also=_everywhere("REGEX_RESOLVED"),
        broader={APACHE: ("SUBSCRIPTION_CHANGED",)},
        because="as for TOPIC_CREATED",
    ),
    Truth(
        "ADMIN_REMOVED",
        broader={APACHE: ("MEMBER_LEFT", "MEMBER_GONE")},
        because="the request is an ordinary LeaveGroup, and a watcher does not see its sender",
    ),
    Truth("USER_ENFORCED"),
    Truth("COOPERATIVE_FOLLOWUP"),
    Truth(LEADERS_OWN),
    Truth(
        "COORDINATOR_FAILOVER",
        broader=_everywhere("SESSION_TIMEOUT", "MEMBER_GONE"),
        because="members with slow reconnects are removed; the catalog has SESSION_TIMEOUT for the time after a "
        "failover",
    ),
    Truth(
        "BROKER_STALL",
        broader={APACHE: ("SESSION_TIMEOUT", "MEMBER_GONE", "STATIC_EXPIRED")},
        because="the session expired; a watcher does not see the reason",
    ),
    Truth("GROUP_DELETED"),
)
AFTERWARDS: Final = (
    "a rebalance that the leader starts after a metadata change is right as LEADER_REJOIN",
    "a removed member, or one without polls, may return within the same rebalance without a second report",
    "after a failover SESSION_TIMEOUT and MEMBER_GONE are broader causes, as in the catalog",
    "a group that became empty by an action on its broker forms again",
    "a single member without polls leaves an empty group, which forms again at its return",
    "a client may notice an action on topics during the next action",
    "a static member that joins again after a time without coordinator may be reported as a restart, not counted",
    "a rejected commit (ZOMBIE_COMMIT) never counts",
    "an action without a change of topics is not missed",
    "sessions and poll intervals became longer, because slow members were removed",
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
