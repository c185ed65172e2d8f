"""AlterReplicaLogDirs (34), DescribeLogDirs (35): log directories of a broker and their content (KIP-113).

AlterReplicaLogDirs 1: responses precede throttling. 2: flexible.
DescribeLogDirs 1: responses precede throttling. 2: flexible. 3: an error for the whole request. 4: size and free bytes
of the disk (KIP-827). 5: directories that accept no new logs (KIP-1066).
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, boolean, int16, int32, int64, string


class AlterLogDirTopic(Message):
    name: str = string()
    partitions: list[int] = array(int32())


class AlterLogDir(Message):
    """Log directory by its absolute path, and the replicas to move there."""

    path: str = string()
    topics: list[AlterLogDirTopic] = array(AlterLogDirTopic)


class AlterReplicaLogDirsRequest(Message, api_key=34, versions="1-2", flexible="2+"):
    dirs: list[AlterLogDir] = array(AlterLogDir)


class AlteredLogDirPartition(Message):
    partition_index: int = int32()
    error_code: int = int16()


class AlteredLogDirTopic(Message):
    topic_name: str = string()
    partitions: list[AlteredLogDirPartition] = array(AlteredLogDirPartition)


class AlterReplicaLogDirsResponse(Message, api_key=34, versions="1-2", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[AlteredLogDirTopic] = array(AlteredLogDirTopic)


class DescribableLogDirTopic(Message):
    topic: str = string()
    partitions: list[int] = array(int32())


class DescribeLogDirsRequest(Message, api_key=35, versions="1-5", flexible="2+"):
    """None means all partitions."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


class DescribeLogDirsPartition(Message):
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


class DescribeLogDirsTopic(Message):
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Message):
    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64("4+", default=-1, ignorable=True)
    usable_bytes: int = int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = boolean("5+", ignorable=True)


class DescribeLogDirsResponse(Message, api_key=35, versions="1-5", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
