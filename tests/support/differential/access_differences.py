"""Allowed differences between kohort and Apache Kafka in responses about authorization, each with its reason."""

from __future__ import annotations

import fnmatch
from typing import Any, Final

from support.differential.differences import May


def _is_served_at_once(ours: Any, theirs: Any) -> bool:
    return (ours, theirs) == (0, 3) or theirs in ("none", [])


def _is_a_denial_that_kafka_fails_at(ours: Any, theirs: Any) -> bool:
    return theirs == "no answer" and isinstance(ours, dict) and ours["error_code"] == CLUSTER_DENIED


CLUSTER_DENIED: Final = 31
ACCESS: Final = (
    May("ListConfigResourcesRequest", "config_resources*", "each has whatever tests have made there"),
    May("GetTelemetrySubscriptionsRequest", "client_instance_id", "each gives ids at random"),
    May("GetTelemetrySubscriptionsRequest", "subscription_id", "it is a checksum with the id in it"),
    May("GetTelemetrySubscriptionsRequest", "delta_temporality", "we ask for values since the client began"),
    May("GetTelemetrySubscriptionsRequest", "requested_metrics*", "we have a default subscription"),
    May("GetTelemetrySubscriptionsRequest", "push_interval_ms", "the same"),
    May("DescribeLogDirsRequest", "results.*.*", "each has a folder of its own"),
    May("MetadataRequest", "topics.*", "a topic that is asked for is there at once; Kafka makes it a moment later",
        _is_served_at_once),
    May("FetchRequest", "*.aborted_transactions", "of what is refused clients read nothing else",
        lambda ours, theirs: (ours, theirs) == (None, [])),
    May("JoinGroupRequest", "member_id", "who is refused is told the id that it gave", lambda _, theirs: theirs == ""),
    May("DescribeClientQuotasRequest", "error_message", "we say who needs what", lambda _, theirs: theirs is None),
    May("DescribeQuorumRequest", "nodes.*.listeners.*", "our voter listens where clients do"),
    May("DescribeQuorumRequest", "topics.*", "our quorum is one node, and writes no log"),
    May("DeleteAclsRequest", "*.resource_name", "names are those of the tests, which begin anew at each"),
    May("DescribeUserScramCredentialsRequest", "results.*", "users and mechanisms are in another order"),
    May("DescribeUserScramCredentialsRequest", "", "where it denies all users Kafka fails, and never answers",
        _is_a_denial_that_kafka_fails_at),
)  # fmt: skip


def is_allowed_of_access(request: str, path: str, ours: Any, theirs: Any) -> bool:
    return any(
        fnmatch.fnmatchcase(request, may.request) and fnmatch.fnmatchcase(path, may.path) and may.only(ours, theirs)
        for may in ACCESS
    )
