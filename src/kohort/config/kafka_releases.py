"""Highest version of each API, and the features, by release of Apache Kafka.

The table has the stable versions that a broker's listener advertises, from the releases' classes (``ApiKeys``,
``MetadataVersion`` and the feature enumerations). ConsumerGroupHeartbeat and ConsumerGroupDescribe, a preview from 3.7
to 3.9, begin with 4.0.
"""

from __future__ import annotations

from typing import Final, NamedTuple

RELEASES: Final = (
    *("2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8"),
    *("3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"),
    *("4.0", "4.1", "4.2", "4.3", "4.4"),
)
"""Releases of Apache Kafka, oldest first. Current clients need at least 2.1 (KIP-896)."""
NEWEST: Final = RELEASES[-1]

# fmt: off
HIGHEST: Final = {
    0: "2.1:7 2.4:8 2.8:9 3.7:10 3.8:11 4.0:12 4.1:13",  # Produce
    1: "2.1:10 2.3:11 2.7:12 3.1:13 3.5:15 3.7:16 3.9:17 4.1:18",  # Fetch
    2: "2.1:4 2.2:5 2.8:6 3.0:7 3.5:8 3.9:9 4.0:10 4.2:11",  # ListOffsets
    3: "2.1:7 2.3:8 2.4:9 2.8:11 3.1:12 4.0:13",  # Metadata
    8: "2.1:6 2.3:7 2.4:8 3.7:9 4.2:10",  # OffsetCommit
    9: "2.1:5 2.4:6 2.5:7 3.0:8 3.7:9 4.2:10",  # OffsetFetch
    10: "2.1:2 2.4:3 3.0:4 3.8:5 3.9:6",  # FindCoordinator
    11: "2.1:3 2.2:4 2.3:5 2.4:6 2.5:7 3.2:9",  # JoinGroup
    12: "2.1:2 2.3:3 2.4:4",  # Heartbeat
    13: "2.1:2 2.4:4 3.2:5",  # LeaveGroup
    14: "2.1:2 2.3:3 2.4:4 2.5:5",  # SyncGroup
    15: "2.1:2 2.3:3 2.4:5 4.0:6",  # DescribeGroups
    16: "2.1:2 2.4:3 2.6:4 3.8:5",  # ListGroups
    17: "2.1:1",  # SaslHandshake
    18: "2.1:2 2.4:3 3.9:4 4.4:5",  # ApiVersions
    19: "2.1:3 2.4:5 2.7:6 2.8:7",  # CreateTopics
    20: "2.1:3 2.4:4 2.7:5 2.8:6",  # DeleteTopics
    21: "2.1:1 2.6:2",  # DeleteRecords
    22: "2.1:1 2.4:2 2.5:3 2.7:4 3.8:5",  # InitProducerId
    23: "2.1:2 2.3:3 2.8:4",  # OffsetForLeaderEpoch
    24: "2.1:1 2.7:2 2.8:3 3.6:4 3.8:5",  # AddPartitionsToTxn
    25: "2.1:1 2.7:2 2.8:3 3.8:4",  # AddOffsetsToTxn
    26: "2.1:1 2.7:2 2.8:3 3.8:4 4.0:5",  # EndTxn
    27: "2.1:0 2.8:1 4.2:2",  # WriteTxnMarkers
    28: "2.1:2 2.5:3 3.8:4 4.0:5 4.4:6",  # TxnOffsetCommit
    29: "2.1:1 2.5:2 3.3:3",  # DescribeAcls
    30: "2.1:1 2.5:2 3.3:3",  # CreateAcls
    31: "2.1:1 2.5:2 3.3:3",  # DeleteAcls
    32: "2.1:2 2.6:3 2.8:4",  # DescribeConfigs
    33: "2.1:1 2.8:2",  # AlterConfigs
    34: "2.1:1 2.8:2",  # AlterReplicaLogDirs
    35: "2.1:1 2.6:2 3.2:3 3.3:4 4.3:5",  # DescribeLogDirs
    36: "2.1:0 2.2:1 2.5:2",  # SaslAuthenticate
    37: "2.1:1 2.5:2 2.7:3",  # CreatePartitions
    38: "2.1:1 2.4:2 3.3:3",  # CreateDelegationToken
    39: "2.1:1 2.5:2",  # RenewDelegationToken
    40: "2.1:1 2.5:2",  # ExpireDelegationToken
    41: "2.1:1 2.5:2 3.3:3",  # DescribeDelegationToken
    42: "2.1:1 2.4:2 4.4:3",  # DeleteGroups
    43: "2.2:0 2.4:2",  # ElectLeaders
    44: "2.3:0 2.4:1",  # IncrementalAlterConfigs
    45: "2.4:0 4.1:1",  # AlterPartitionReassignments
    46: "2.4:0",  # ListPartitionReassignments
    47: "2.4:0",  # OffsetDelete
    48: "2.6:0 2.8:1",  # DescribeClientQuotas
    49: "2.6:0 2.8:1",  # AlterClientQuotas
    50: "2.7:0",  # DescribeUserScramCredentials
    51: "2.7:0",  # AlterUserScramCredentials
    55: "2.8:0 3.3:1 3.9:2",  # DescribeQuorum
    57: "2.7:0 3.3:1 4.0:2",  # UpdateFeatures
    60: "2.8:0 3.7:1 4.0:2",  # DescribeCluster
    61: "2.8:0",  # DescribeProducers
    64: "3.3:0",  # UnregisterBroker
    65: "3.0:0",  # DescribeTransactions
    66: "3.0:0 3.8:1 4.1:2",  # ListTransactions
    68: "4.0:1",  # ConsumerGroupHeartbeat
    69: "4.0:1",  # ConsumerGroupDescribe
    71: "3.7:0",  # GetTelemetrySubscriptions
    72: "3.7:0",  # PushTelemetry
    74: "3.7:0 4.1:1",  # ListConfigResources
    75: "3.8:0",  # DescribeTopicPartitions
    76: "4.1:1",  # ShareGroupHeartbeat
    77: "4.1:1",  # ShareGroupDescribe
    78: "4.1:1 4.2:2",  # ShareFetch
    79: "4.1:1 4.2:2",  # ShareAcknowledge
    80: "3.9:0 4.2:1",  # AddRaftVoter
    81: "3.9:0",  # RemoveRaftVoter
    83: "4.1:0",  # InitializeShareGroupState
    84: "4.1:0",  # ReadShareGroupState
    85: "4.1:0 4.2:1",  # WriteShareGroupState
    86: "4.1:0",  # DeleteShareGroupState
    87: "4.1:0 4.2:1",  # ReadShareGroupStateSummary
    88: "4.2:0 4.4:1",  # StreamsGroupHeartbeat
    89: "4.2:0 4.4:1",  # StreamsGroupDescribe
    90: "4.1:0 4.2:1",  # DescribeShareGroupOffsets
    91: "4.1:0",  # AlterShareGroupOffsets
    92: "4.1:0",  # DeleteShareGroupOffsets
    93: "4.4:0",  # StreamsGroupTopologyDescriptionUpdate
    94: "4.4:0",  # UnregisterController
}
# fmt: on
"""Highest version by API key and release. The API is absent before the first release listed."""


class Feature(NamedTuple):
    """Supported levels of a feature; a new cluster has the highest one."""

    lowest: int
    highest: int


# fmt: off
FEATURES: Final = {
    "metadata.version": "3.3:1-7 3.4:1-8 3.5:1-11 3.6:1-14 3.7:1-19 3.8:1-20 3.9:1-21 "
                        "4.0:7-25 4.1:7-27 4.2:7-29 4.3:7-30 4.4:7-33",
    "group.version": "4.0:0-1",
    "transaction.version": "4.0:0-2",
    "share.version": "4.2:0-1 4.4:0-2",
    "streams.version": "4.2:0-1",
}
# fmt: on
"""Supported levels by feature and release. ZooKeeper clusters, before 3.3, have no features."""


def highest_version(api_key: int, release: str) -> int | None:
    found = _as_of(HIGHEST.get(api_key, ""), release)
    return None if found is None else int(found)


def features(release: str) -> dict[str, Feature]:
    found = {name: _as_of(levels, release) for name, levels in FEATURES.items()}
    return {name: Feature(*map(int, levels.split("-"))) for name, levels in found.items() if levels is not None}


def is_at_least(release: str, other: str) -> bool:
    return RELEASES.index(release) >= RELEASES.index(other)


def _as_of(entries: str, release: str) -> str | None:
    found = None
    for entry in entries.split():
        since, _, value = entry.partition(":")
        if not is_at_least(release, since):
            break
        found = value
    return found
