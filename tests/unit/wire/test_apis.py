"""Table of APIs: versions of Kafka 4.4 and first flexible versions."""

from __future__ import annotations

import pytest

from kohort.wire.apis import APIS, api_of
from kohort.wire.messages.group_classic import JoinGroupRequestProtocol, JoinGroupResponse

KAFKA_4_4 = {
    0: ("Produce", 3, 13, 9),
    1: ("Fetch", 4, 18, 12),
    2: ("ListOffsets", 1, 11, 6),
    3: ("Metadata", 0, 13, 9),
    8: ("OffsetCommit", 2, 10, 8),
    9: ("OffsetFetch", 1, 10, 6),
    10: ("FindCoordinator", 0, 6, 3),
    11: ("JoinGroup", 0, 9, 6),
    12: ("Heartbeat", 0, 4, 4),
    13: ("LeaveGroup", 0, 5, 4),
    14: ("SyncGroup", 0, 5, 4),
    15: ("DescribeGroups", 0, 6, 5),
    16: ("ListGroups", 0, 5, 3),
    17: ("SaslHandshake", 0, 1, 32767),
    18: ("ApiVersions", 0, 5, 3),
    19: ("CreateTopics", 2, 7, 5),
    20: ("DeleteTopics", 1, 6, 4),
    21: ("DeleteRecords", 0, 2, 2),
    22: ("InitProducerId", 0, 5, 2),
    23: ("OffsetForLeaderEpoch", 2, 4, 4),
    24: ("AddPartitionsToTxn", 0, 5, 3),
    25: ("AddOffsetsToTxn", 0, 4, 3),
    26: ("EndTxn", 0, 5, 3),
    27: ("WriteTxnMarkers", 1, 2, 1),
    28: ("TxnOffsetCommit", 0, 6, 3),
    29: ("DescribeAcls", 1, 3, 2),
    30: ("CreateAcls", 1, 3, 2),
    31: ("DeleteAcls", 1, 3, 2),
    32: ("DescribeConfigs", 1, 4, 4),
    33: ("AlterConfigs", 0, 2, 2),
    34: ("AlterReplicaLogDirs", 1, 2, 2),
    35: ("DescribeLogDirs", 1, 5, 2),
    36: ("SaslAuthenticate", 0, 2, 2),
    37: ("CreatePartitions", 0, 3, 2),
    42: ("DeleteGroups", 0, 3, 2),
    43: ("ElectLeaders", 0, 2, 2),
    44: ("IncrementalAlterConfigs", 0, 1, 1),
    45: ("AlterPartitionReassignments", 0, 1, 0),
    46: ("ListPartitionReassignments", 0, 0, 0),
    47: ("OffsetDelete", 0, 0, 32767),
    48: ("DescribeClientQuotas", 0, 1, 1),
    49: ("AlterClientQuotas", 0, 1, 1),
    50: ("DescribeUserScramCredentials", 0, 0, 0),
    51: ("AlterUserScramCredentials", 0, 0, 0),
    55: ("DescribeQuorum", 0, 2, 0),
    57: ("UpdateFeatures", 0, 2, 0),
    60: ("DescribeCluster", 0, 2, 0),
    61: ("DescribeProducers", 0, 0, 0),
    65: ("DescribeTransactions", 0, 0, 0),
    66: ("ListTransactions", 0, 2, 0),
    68: ("ConsumerGroupHeartbeat", 0, 1, 0),
    69: ("ConsumerGroupDescribe", 0, 1, 0),
    71: ("GetTelemetrySubscriptions", 0, 0, 0),
    72: ("PushTelemetry", 0, 0, 0),
    74: ("ListConfigResources", 0, 1, 0),
    75: ("DescribeTopicPartitions", 0, 0, 0),
}


def test_api_versions_match_kafka_4_4() -> None:
    assert {k: (a.name, a.low, a.high, a.flexible_from) for k, a in APIS.items()} == KAFKA_4_4


def test_only_produce_advertises_unserved_low_version() -> None:
    assert {a.name for a in APIS.values() if a.advertised_low != a.low} == {"Produce"}
    assert APIS[0].advertised_low == 0
    assert not APIS[0].serves(2)
    assert APIS[0].serves(3)
    assert not APIS[0].serves(14)


def test_api_of_returns_api_of_request_and_rejects_struct() -> None:
    assert api_of(JoinGroupResponse()) is APIS[11]
    with pytest.raises(KeyError, match="neither a request nor a response"):
        api_of(JoinGroupRequestProtocol())
