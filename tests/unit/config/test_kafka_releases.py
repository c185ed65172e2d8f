"""API versions of Apache Kafka releases: complete for 4.0 to 4.4, partial for older ones."""

from __future__ import annotations

import pytest

from kohort.config.kafka_releases import (
    FEATURES,
    HIGHEST,
    NEWEST,
    RELEASES,
    Feature,
    features,
    highest_version,
    is_at_least,
)
from kohort.wire.apis import APIS

# fmt: off
OF_4 = {
    0: (12, 13, 13, 13, 13),  # Produce
    1: (17, 18, 18, 18, 18),  # Fetch
    2: (10, 10, 11, 11, 11),  # ListOffsets
    3: (13, 13, 13, 13, 13),  # Metadata
    8: (9, 9, 10, 10, 10),  # OffsetCommit
    9: (9, 9, 10, 10, 10),  # OffsetFetch
    10: (6, 6, 6, 6, 6),  # FindCoordinator
    11: (9, 9, 9, 9, 9),  # JoinGroup
    12: (4, 4, 4, 4, 4),  # Heartbeat
    13: (5, 5, 5, 5, 5),  # LeaveGroup
    14: (5, 5, 5, 5, 5),  # SyncGroup
    15: (6, 6, 6, 6, 6),  # DescribeGroups
    16: (5, 5, 5, 5, 5),  # ListGroups
    17: (1, 1, 1, 1, 1),  # SaslHandshake
    18: (4, 4, 4, 4, 5),  # ApiVersions
    19: (7, 7, 7, 7, 7),  # CreateTopics
    20: (6, 6, 6, 6, 6),  # DeleteTopics
    21: (2, 2, 2, 2, 2),  # DeleteRecords
    22: (5, 5, 5, 5, 5),  # InitProducerId
    23: (4, 4, 4, 4, 4),  # OffsetForLeaderEpoch
    24: (5, 5, 5, 5, 5),  # AddPartitionsToTxn
    25: (4, 4, 4, 4, 4),  # AddOffsetsToTxn
    26: (5, 5, 5, 5, 5),  # EndTxn
    27: (1, 1, 2, 2, 2),  # WriteTxnMarkers
    28: (5, 5, 5, 5, 6),  # TxnOffsetCommit
    29: (3, 3, 3, 3, 3),  # DescribeAcls
    30: (3, 3, 3, 3, 3),  # CreateAcls
    31: (3, 3, 3, 3, 3),  # DeleteAcls
    32: (4, 4, 4, 4, 4),  # DescribeConfigs
    33: (2, 2, 2, 2, 2),  # AlterConfigs
    34: (2, 2, 2, 2, 2),  # AlterReplicaLogDirs
    35: (4, 4, 4, 5, 5),  # DescribeLogDirs
    36: (2, 2, 2, 2, 2),  # SaslAuthenticate
    37: (3, 3, 3, 3, 3),  # CreatePartitions
    38: (3, 3, 3, 3, 3),  # CreateDelegationToken
    39: (2, 2, 2, 2, 2),  # RenewDelegationToken
    40: (2, 2, 2, 2, 2),  # ExpireDelegationToken
    41: (3, 3, 3, 3, 3),  # DescribeDelegationToken
    42: (2, 2, 2, 2, 3),  # DeleteGroups
    43: (2, 2, 2, 2, 2),  # ElectLeaders
    44: (1, 1, 1, 1, 1),  # IncrementalAlterConfigs
    45: (0, 1, 1, 1, 1),  # AlterPartitionReassignments
    46: (0, 0, 0, 0, 0),  # ListPartitionReassignments
    47: (0, 0, 0, 0, 0),  # OffsetDelete
    48: (1, 1, 1, 1, 1),  # DescribeClientQuotas
    49: (1, 1, 1, 1, 1),  # AlterClientQuotas
    50: (0, 0, 0, 0, 0),  # DescribeUserScramCredentials
    51: (0, 0, 0, 0, 0),  # AlterUserScramCredentials
    55: (2, 2, 2, 2, 2),  # DescribeQuorum
    57: (2, 2, 2, 2, 2),  # UpdateFeatures
    60: (2, 2, 2, 2, 2),  # DescribeCluster
    61: (0, 0, 0, 0, 0),  # DescribeProducers
    64: (0, 0, 0, 0, 0),  # UnregisterBroker
    65: (0, 0, 0, 0, 0),  # DescribeTransactions
    66: (1, 2, 2, 2, 2),  # ListTransactions
    68: (1, 1, 1, 1, 1),  # ConsumerGroupHeartbeat
    69: (1, 1, 1, 1, 1),  # ConsumerGroupDescribe
    71: (0, 0, 0, 0, 0),  # GetTelemetrySubscriptions
    72: (0, 0, 0, 0, 0),  # PushTelemetry
    74: (0, 1, 1, 1, 1),  # ListConfigResources
    75: (0, 0, 0, 0, 0),  # DescribeTopicPartitions
    76: (None, 1, 1, 1, 1),  # ShareGroupHeartbeat
    77: (None, 1, 1, 1, 1),  # ShareGroupDescribe
    78: (None, 1, 2, 2, 2),  # ShareFetch
    79: (None, 1, 2, 2, 2),  # ShareAcknowledge
    80: (0, 0, 1, 1, 1),  # AddRaftVoter
    81: (0, 0, 0, 0, 0),  # RemoveRaftVoter
    83: (None, 0, 0, 0, 0),  # InitializeShareGroupState
    84: (None, 0, 0, 0, 0),  # ReadShareGroupState
    85: (None, 0, 1, 1, 1),  # WriteShareGroupState
    86: (None, 0, 0, 0, 0),  # DeleteShareGroupState
    87: (None, 0, 1, 1, 1),  # ReadShareGroupStateSummary
    88: (None, None, 0, 0, 1),  # StreamsGroupHeartbeat
    89: (None, None, 0, 0, 1),  # StreamsGroupDescribe
    90: (None, 0, 1, 1, 1),  # DescribeShareGroupOffsets
    91: (None, 0, 0, 0, 0),  # AlterShareGroupOffsets
    92: (None, 0, 0, 0, 0),  # DeleteShareGroupOffsets
    93: (None, None, None, None, 0),  # StreamsGroupTopologyDescriptionUpdate
    94: (None, None, None, None, 0),  # UnregisterController
}
# fmt: on
OF_OLDER = {
    "2.1": {0: 7, 1: 10, 2: 4, 3: 7, 8: 6, 9: 5, 10: 2, 11: 3, 12: 2, 13: 2, 14: 2, 18: 2, 36: 0, 43: None, 44: None},
    "2.3": {1: 11, 3: 8, 8: 7, 11: 5, 14: 3, 44: 0, 45: None},
    "2.4": {0: 8, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 13: 4, 18: 3, 45: 0, 47: 0, 48: None},
    "2.8": {0: 9, 1: 12, 2: 6, 3: 11, 9: 7, 10: 3, 11: 7, 14: 5, 16: 4, 60: 0, 65: None},
    "3.0": {1: 12, 2: 7, 9: 8, 10: 4, 65: 0, 66: 0},
    "3.1": {1: 13, 3: 12},
    "3.2": {11: 9, 13: 5},
    "3.5": {1: 15, 2: 8},
    "3.7": {0: 10, 1: 16, 8: 9, 9: 9, 68: None, 71: 0, 74: 0, 75: None},
    "3.8": {0: 11, 10: 5, 16: 5, 22: 5, 75: 0},
    "3.9": {1: 17, 2: 9, 10: 6, 15: 5, 18: 4, 26: 4, 28: 4, 68: None, 69: None, 76: None},
}


@pytest.mark.parametrize("key", OF_4)
def test_api_versions_of_kafka_4_match_its_releases(key: int) -> None:
    assert tuple(highest_version(key, release) for release in ("4.0", "4.1", "4.2", "4.3", "4.4")) == OF_4[key]


@pytest.mark.parametrize("release", OF_OLDER)
def test_api_versions_of_older_releases_match(release: str) -> None:
    assert {key: highest_version(key, release) for key in OF_OLDER[release]} == OF_OLDER[release]


def test_release_table_covers_exactly_known_apis() -> None:
    assert HIGHEST.keys() == OF_4.keys()
    assert APIS.keys() <= HIGHEST.keys()
    assert {api.name: api.high for api in APIS.values()} == {
        api.name: highest_version(key, NEWEST) for key, api in APIS.items()
    }


def test_release_table_versions_increase() -> None:
    for entries in HIGHEST.values():
        since, versions = zip(*(entry.split(":") for entry in entries.split()), strict=True)
        assert list(since) == sorted(since, key=RELEASES.index)
        assert list(map(int, versions)) == sorted(set(map(int, versions)))
    for levels in FEATURES.values():
        named = [entry.partition(":")[0] for entry in levels.split()]
        assert named == sorted(named, key=RELEASES.index)


def test_features_begin_with_their_releases() -> None:
    assert features("3.2") == {}
    assert features("3.9") == {"metadata.version": Feature(1, 21)}
    assert features("4.0") == {
        "metadata.version": Feature(7, 25),
        "group.version": Feature(0, 1),
        "transaction.version": Feature(0, 2),
    }
    assert features("4.4")["metadata.version"] == Feature(7, 33)


def test_releases_are_sorted() -> None:
    assert is_at_least("3.0", "2.8")
    assert is_at_least("4.0", "4.0")
    assert not is_at_least("2.8", "3.0")
