"""Fields of requests that contain names, by API, for the largest bodies of ``stall_bodies``."""

from enum import Enum


class NameKind(Enum):
    """Kinds of names in a request whose objects add to its cost."""

    TOPIC = "topic"
    TOPIC_ID = "topic id"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"
    RESOURCE = "resource with options"
    PATTERN = "regular expression"
    ASSIGNMENT = "assignment of a classic member"
    SUBSCRIPTION = "subscription of a classic member"
    USER = "user"


NAMED_FIELDS: dict[str, dict[str, NameKind]] = {
    "Produce": {"topic_data.name": NameKind.TOPIC, "topic_data.topic_id": NameKind.TOPIC_ID},
    "Fetch": {"topics.topic": NameKind.TOPIC, "topics.topic_id": NameKind.TOPIC_ID},
    "ListOffsets": {"topics.name": NameKind.TOPIC},
    "Metadata": {"topics.name": NameKind.TOPIC, "topics.topic_id": NameKind.TOPIC_ID},
    "OffsetCommit": {"group_id": NameKind.GROUP, "topics.name": NameKind.TOPIC, "topics.topic_id": NameKind.TOPIC_ID},
    "OffsetFetch": {
        "group_id": NameKind.GROUP,
        "topics.name": NameKind.TOPIC,
        "groups.group_id": NameKind.GROUP,
        "groups.topics.name": NameKind.TOPIC,
        "groups.topics.topic_id": NameKind.TOPIC_ID,
    },
    "FindCoordinator": {"key": NameKind.GROUP, "coordinator_keys": NameKind.GROUP},
    "JoinGroup": {"group_id": NameKind.GROUP, "protocols.metadata": NameKind.SUBSCRIPTION},
    "Heartbeat": {"group_id": NameKind.GROUP},
    "LeaveGroup": {"group_id": NameKind.GROUP},
    "SyncGroup": {"group_id": NameKind.GROUP, "assignments.assignment": NameKind.ASSIGNMENT},
    "DescribeGroups": {"groups": NameKind.GROUP},
    "DeleteTopics": {
        "topics.name": NameKind.TOPIC,
        "topics.topic_id": NameKind.TOPIC_ID,
        "topic_names": NameKind.TOPIC,
    },
    "DeleteRecords": {"topics.name": NameKind.TOPIC},
    "InitProducerId": {"transactional_id": NameKind.TRANSACTIONAL_ID},
    "OffsetForLeaderEpoch": {"topics.topic": NameKind.TOPIC},
    "AddPartitionsToTxn": {
        "v3_and_below_transactional_id": NameKind.TRANSACTIONAL_ID,
        "v3_and_below_topics.name": NameKind.TOPIC,
        "transactions.transactional_id": NameKind.TRANSACTIONAL_ID,
        "transactions.topics.name": NameKind.TOPIC,
    },
    "AddOffsetsToTxn": {"transactional_id": NameKind.TRANSACTIONAL_ID, "group_id": NameKind.GROUP},
    "EndTxn": {"transactional_id": NameKind.TRANSACTIONAL_ID},
    "WriteTxnMarkers": {"markers.topics.name": NameKind.TOPIC},
    "TxnOffsetCommit": {
        "transactional_id": NameKind.TRANSACTIONAL_ID,
        "group_id": NameKind.GROUP,
        "topics.name": NameKind.TOPIC,
        "topics.topic_id": NameKind.TOPIC_ID,
    },
    "DescribeConfigs": {"resources.resource_name": NameKind.RESOURCE},
    "AlterConfigs": {"resources.resource_name": NameKind.RESOURCE},
    "AlterReplicaLogDirs": {"dirs.topics.name": NameKind.TOPIC},
    "DescribeLogDirs": {"topics.topic": NameKind.TOPIC},
    "CreatePartitions": {"topics.name": NameKind.TOPIC},
    "DeleteGroups": {"groups_names": NameKind.GROUP},
    "ElectLeaders": {"topic_partitions.topic": NameKind.TOPIC},
    "IncrementalAlterConfigs": {"resources.resource_name": NameKind.RESOURCE},
    "AlterPartitionReassignments": {"topics.name": NameKind.TOPIC},
    "ListPartitionReassignments": {"topics.name": NameKind.TOPIC},
    "OffsetDelete": {"group_id": NameKind.GROUP, "topics.name": NameKind.TOPIC},
    "DescribeUserScramCredentials": {"users.name": NameKind.USER},
    "AlterUserScramCredentials": {"deletions.name": NameKind.USER, "upsertions.name": NameKind.USER},
    "DescribeQuorum": {"topics.topic_name": NameKind.TOPIC},
    "DescribeProducers": {"topics.name": NameKind.TOPIC},
    "DescribeTransactions": {"transactional_ids": NameKind.TRANSACTIONAL_ID},
    "ListTransactions": {"transactional_id_pattern": NameKind.PATTERN},
    "ConsumerGroupHeartbeat": {
        "group_id": NameKind.GROUP,
        "subscribed_topic_names": NameKind.TOPIC,
        "subscribed_topic_regex": NameKind.PATTERN,
        "topic_partitions.topic_id": NameKind.TOPIC_ID,
    },
    "ConsumerGroupDescribe": {"group_ids": NameKind.GROUP},
    "DescribeTopicPartitions": {"topics.name": NameKind.TOPIC},
}
"""Kind of name by the path of its field in the request."""
