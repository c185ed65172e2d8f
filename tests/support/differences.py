"""What may differ between the answers of kohort and of Apache Kafka, each with its reason: the one list there is.

What is allowed here is not judged; what a user could notice also stands in docs/deviations.md.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class May:
    """A field of the answers to some request (patterns) may differ; where ``only`` holds of the two values."""

    asked: str
    path: str
    reason: str
    only: Callable[[Any, Any], bool] = lambda _ours, _theirs: True


def _both_say_something(ours: Any, theirs: Any) -> bool:
    return bool(ours) == bool(theirs)


ALLOWED: Final = (
    May("*", "*.port", "each listens on a port of its own"),
    May("*", "port", "each listens on a port of its own"),
    May("*", "*.node_id", "the number of the node is its own"),
    May("*", "node_id", "the number of the node is its own"),
    May(
        "DescribeGroupsRequest",
        "groups.*.members.*.client_id",
        "a static member that restarted is shown with its new client id; Kafka shows its first one",
        lambda ours, theirs: ours == f"{theirs}-again",
    ),
    May("FindCoordinatorRequest", "*error_message", "we say that share groups are not served; Kafka says nothing"),
    May("*", "*error_message", "the words are our own, where both have some", _both_say_something),
)

UNORDERED: Final = frozenset(
    {
        ("JoinGroupResponse", "members"),
        ("DescribeGroupsResponse", "groups"),
        ("DescribedGroup", "members"),
        ("ListGroupsResponse", "groups"),
        ("DeleteGroupsResponse", "results"),
        ("OffsetFetchResponse", "topics"),
        ("OffsetFetchResponseTopic", "partitions"),
        ("OffsetFetchResponseGroup", "topics"),
        ("OffsetFetchResponseTopics", "partitions"),
        ("OffsetCommitResponse", "topics"),
        ("OffsetCommitResponseTopic", "partitions"),
        ("OffsetDeleteResponse", "topics"),
        ("OffsetDeleteResponseTopic", "partitions"),
    }
)
"""Arrays whose order is that of a hash map in Kafka."""


def is_allowed(asked: str, path: str, ours: Any, theirs: Any) -> bool:
    return any(
        fnmatch.fnmatchcase(asked, may.asked) and fnmatch.fnmatchcase(path, may.path) and may.only(ours, theirs)
        for may in ALLOWED
    )
