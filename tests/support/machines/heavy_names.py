"""Large state on a broker's log: a group of many members, a transaction of many partitions."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.coordinator.records import GroupWritten, OffsetCommitted, Record, build_record
from kohort.log.partition import PartitionLog
from kohort.wire.messages.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from kohort.wire.record_batch import NewRecord, build_batch
from support.consumer_protocol import assignment, subscription
from support.machines.broker_stage import BrokerStage
from support.machines.written_groups import epochs, member

RECORDS_IN_A_BATCH = 1_000


def write_groups(stage: BrokerStage, **records: Iterable[Record]) -> None:
    """Append the records of each group to the log, and restart the broker."""
    state = stage.broker.state
    state.offsets_topic.ensure(stage.now_ms)
    for group, of_group in records.items():
        topic = state.topics.get(state.offsets_topic.name)
        append(topic.partitions[state.coordinator.partition_of(group)], of_group, stage.now_ms)
    stage.restart()


def append(log: PartitionLog, records: Iterable[Record], now_ms: int) -> None:
    built = [NewRecord(key, value, (), now_ms) for key, value in map(build_record, records)]
    for at in range(0, len(built), RECORDS_IN_A_BATCH):
        log.append(build_batch(built[at : at + RECORDS_IN_A_BATCH]), now_ms, from_client=False)


def consumer_group(group: str, members: int) -> list[Record]:
    written: list[Record] = [*epochs(2, group=group)]
    for n in range(members):
        written += member(f"m{n}", 2, group=group)
    return written


def classic_group(group: str, members: int, metadata_bytes: int = 0) -> list[Record]:
    """The record of a stable classic group."""
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=1,
        protocol="range",
        leader="m0",
        members=[
            MemberMetadata(
                member_id=f"m{n}",
                client_id="app",
                client_host="/127.0.0.1",
                rebalance_timeout=60_000,
                session_timeout=60_000,
                subscription=subscription("t") + bytes(metadata_bytes),
                assignment=assignment(("t", n)),
            )
            for n in range(members)
        ],
    )
    return [GroupWritten(group, value)]


def offsets(group: str, partitions: int) -> list[Record]:
    return [
        OffsetCommitted(group, "t", p, OffsetCommitValue(offset=p, leader_epoch=-1, metadata=""))
        for p in range(partitions)
    ]
