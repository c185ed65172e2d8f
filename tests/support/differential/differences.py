"""Allowed differences between the responses of kohort and Apache Kafka, each with its reason.

Differences that a user can notice are also in docs/deviations.md.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from support.recent import RECENT_MS


@dataclass(frozen=True)
class May:
    """Allowed difference of a field in the responses to some requests (patterns), if ``only(ours, theirs)``."""

    request: str
    path: str
    reason: str
    only: Callable[[Any, Any], bool] = lambda _ours, _theirs: True


def _both_say_something(ours: Any, theirs: Any) -> bool:
    return bool(ours) == bool(theirs)


def _only_ours(ours: Any, theirs: Any) -> bool:
    return bool(ours) and not theirs


def _only_theirs(ours: Any, theirs: Any) -> bool:
    return bool(theirs) and not ours


def _is_untold(ours: Any, theirs: Any) -> bool:
    return (ours, theirs) == (-1, 0)


def _both_are_ids(ours: Any, theirs: Any) -> bool:
    return bool(ours >= 0 and theirs >= 0)


def _both_are_times(ours: Any, theirs: Any) -> bool:
    return bool(ours > 1_700_000_000_000 and theirs > 1_700_000_000_000)


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
    May("*", "*cluster_id", "each is a cluster of its own"),
    May("*", "*controller_id", "the number of the node is its own"),
    May("*", "*leader_id", "the number of the node is its own"),
    May("*", "*broker_id", "the number of the node is its own"),
    May("*", "*replica_nodes.*", "the number of the node is its own"),
    May("*", "*isr_nodes.*", "the number of the node is its own"),
    May("FetchRequest", "session_id", "sessions are numbered by chance", _both_say_something),
    May("InitProducerIdRequest", "producer_id", "producers are numbered by each broker", _both_are_ids),
    May("EndTxnRequest", "producer_id", "producers are numbered by each broker", _both_are_ids),
    May("DescribeTransactionsRequest", "*.producer_id", "producers are numbered by each broker", _both_are_ids),
    May("ListTransactionsRequest", "*.producer_id", "producers are numbered by each broker", _both_are_ids),
    May("DescribeTransactionsRequest", "*.transaction_start_time_ms", "each has its own time", _both_are_times),
    May("ProduceRequest", "*.log_append_time_ms", "each has its own time", _both_are_times),
    May(
        "ProduceRequest",
        "*.log_append_time_ms",
        "a repeated batch has no time of append; Kafka tells the time that its producer gave it",
        lambda ours, theirs: ours == -1 and theirs == RECENT_MS + 5000,
    ),
    May("ProduceRequest", "*.error_message", "we say why; Kafka says nothing", _only_ours),
    May("ProduceRequest", "*.record_errors", "times are judged by the batch's header, which names none", _only_theirs),
    May("ProduceRequest", "*.batch_index_error_message", "each has its own words", _both_say_something),
    May("ProduceRequest", "*.log_start_offset", "where records are refused Kafka tells it all the same", _is_untold),
    May(
        "ProduceRequest",
        "*.error_code",
        "a batch that is not whole may have been damaged on its way: it is to be sent again; Kafka's is INVALID_RECORD",
        lambda ours, theirs: (ours, theirs) == (2, 87),
    ),
    *(
        May(
            request,
            "*.configs.*.config_source",
            "with eligible leader replicas Kafka sets min.insync.replicas for all brokers; the values are compared",
            lambda ours, theirs: (ours, theirs) == (5, 3),
        )
        for request in ("CreateTopicsRequest", "DescribeConfigsRequest")
    ),
    May("CreateTopicsRequest", "topics.*.configs", "each has options of its own, in its own order"),
    May("CreateTopicsRequest", "topics.*.topic_id", "what is only validated has no id here", lambda o, _: o == "none"),
    May("DescribeConfigsRequest", "results.*.configs", "each has options of its own, in its own order"),
    May("DescribeConfigsRequest", "*.synonyms", "the broker's option that a default comes from is told", _only_ours),
    May("DescribeConfigsRequest", "*error_message", "we say why; Kafka says nothing", _only_ours),
    May(
        "IncrementalAlterConfigsRequest",
        "responses.*.error_code",
        "an operation that there is not is INVALID_CONFIG; Kafka's is UNKNOWN_SERVER_ERROR",
        lambda ours, theirs: (ours, theirs) == (40, -1),
    ),
    May("IncrementalAlterConfigsRequest", "*error_message", "we say why; Kafka says nothing", _only_ours),
    May("FindCoordinatorRequest", "*error_message", "we say that share groups are not served; Kafka says nothing"),
    May("ApiVersionsRequest", "api_keys", "each serves APIs of its own", _both_say_something),
    May("ApiVersionsRequest", "*features*", "each has features of its own", _both_say_something),
    May("ApiVersionsRequest", "finalized_features_epoch", "each counts for itself", lambda o, t: min(o, t) >= 0),
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
        ("ProduceResponse", "responses"),
        ("TopicProduceResponse", "partition_responses"),
        ("MetadataResponse", "topics"),
        ("CreateTopicsResponse", "topics"),
        ("DeleteTopicsResponse", "responses"),
        ("CreatableTopicResult", "configs"),
        ("DescribeConfigsResult", "configs"),
        ("DescribeTransactionsResponse", "transaction_states"),
        ("DescribedTransaction", "topics"),
        ("TransactionTopicData", "partitions"),
        ("AddPartitionsToTxnTopicResult", "results_by_partition"),
        ("ListTransactionsResponse", "transaction_states"),
        ("TxnOffsetCommitResponse", "topics"),
    }
)
"""Arrays in the order of a hash map in Kafka."""


def is_allowed(request: str, path: str, ours: Any, theirs: Any) -> bool:
    return any(
        fnmatch.fnmatchcase(request, may.request) and fnmatch.fnmatchcase(path, may.path) and may.only(ours, theirs)
        for may in ALLOWED
    )
