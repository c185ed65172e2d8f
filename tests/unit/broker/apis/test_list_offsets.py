"""ListOffsets and OffsetForLeaderEpoch."""

from kohort.errors import ErrorCode
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.wire.record_batch import NewRecord, build_batch

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


def find(peer, timestamp: int, version: int = 11, *, topic: str = "a", partition: int = 0, times: int = 1):
    request_partitions = [ListOffsetsPartition(partition_index=partition, timestamp=timestamp)] * times
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=request_partitions)])
    got = peer.ask(request, version).topics[0].partitions[0]
    return got.error_code, got.offset, got.timestamp


def produced(peer) -> None:
    peer.create("a")
    for time_ms in (1000, 3000, 2000):
        batch = build_batch([NewRecord(None, b"v", (), time_ms), NewRecord(None, b"w", (), time_ms + 1)])
        assert peer.produce("a", batch=batch).error_code == 0


def test_list_offsets_returns_earliest_and_latest_offset(peer):
    produced(peer)

    assert find(peer, EARLIEST) == (0, 0, -1)
    assert find(peer, LATEST) == (0, 6, -1)


def test_list_offsets_by_time_finds_the_first_record_at_or_after_the_timestamp(peer):
    produced(peer)

    assert find(peer, 0) == (0, 0, 1000)
    assert find(peer, 1001) == (0, 1, 1001)
    assert find(peer, 2500) == (0, 2, 3000)
    assert find(peer, 9999) == (0, -1, -1)


def test_list_offsets_for_max_timestamp_returns_the_record_with_the_latest_timestamp(peer):
    produced(peer)

    assert find(peer, MAX_TIMESTAMP) == (0, 3, 3001)


def test_list_offsets_returns_no_tiered_offsets(peer):
    produced(peer)

    assert [find(peer, -4), find(peer, -5), find(peer, -6)] == [(0, 0, -1), (0, -1, -1), (0, -1, -1)]


def test_list_offsets_rejects_special_timestamp_in_older_versions(peer):
    produced(peer)

    codes = [find(peer, MAX_TIMESTAMP, 6)[0], find(peer, -4, 7)[0], find(peer, -5, 8)[0], find(peer, -6, 10)[0]]

    assert codes == [ErrorCode.UNSUPPORTED_VERSION] * 4


def test_each_version_of_list_offsets_is_answered(peer):
    produced(peer)

    assert [find(peer, LATEST, version) for version in range(1, 12)] == [(0, 6, -1)] * 11


def test_list_offsets_rejects_unknown_and_duplicate_partitions(peer):
    produced(peer)

    assert find(peer, LATEST, partition=9)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert find(peer, LATEST, topic="b")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert find(peer, LATEST, times=2)[0] == ErrorCode.INVALID_REQUEST


def test_end_of_the_current_leader_epoch_is_the_log_end(peer):
    produced(peer)

    def end(partition: int, epoch: int, version: int, current: int = -1):
        request_partition = OffsetForLeaderPartition(
            partition=partition, leader_epoch=epoch, current_leader_epoch=current
        )
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="a", partitions=[request_partition])])
        got = peer.ask(request, version).topics[0].partitions[0]
        return got.error_code, got.leader_epoch, got.end_offset

    assert [end(0, 0, v) for v in (2, 3, 4)] == [(0, 0, 6)] * 3
    assert end(0, 0, 4, current=3)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert end(5, 0, 4)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
