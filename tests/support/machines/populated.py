"""A broker with a group, a committed offset, a transactional id, and records."""

from __future__ import annotations

from kohort.broker.cluster.transactions import NAME as TRANSACTIONS
from kohort.broker.offsets_topic import NAME as OFFSETS
from kohort.errors import ErrorCode
from kohort.log.partition import PartitionLog
from kohort.notes import Level
from support.machines.broker_stage import BrokerStage
from support.raw.group_member import RawMember, committed
from support.raw.transactional import Transactional

GROUP, TOPIC, TRANSACTIONAL_ID, OFFSET = "g", "a", "t", 7


def populate(stage: BrokerStage) -> RawMember:
    """Create a group member and a transactional producer with records and offsets; return the member."""
    ann = RawMember(stage.connect(), GROUP, [TOPIC])
    ann.wire.create(TOPIC)
    ann.start_join()
    stage.advance(0)
    ann.end_join()
    ann.sync({ann.member_id: {TOPIC: [0]}})
    assert ann.commit(TOPIC, 0, OFFSET) == 0
    producer = Transactional(stage.connect(), TRANSACTIONAL_ID)
    assert producer.init() == 0
    producer.send(TOPIC, b"1", b"2")
    assert producer.end(commit=True) == 0
    return ann


def check_all_is_there(stage: BrokerStage, ann: RawMember) -> None:
    """Check that member, committed offset and producer are still valid."""
    ann.wire = stage.connect()
    assert ann.heartbeat() == 0
    assert committed(ann.wire, GROUP, TOPIC, [0]) == {0: OFFSET}
    transaction = stage.broker.state.cluster.transactions.get(TRANSACTIONAL_ID)
    assert transaction is not None
    assert transaction.producer_id >= 0
    producer = Transactional(stage.connect(), TRANSACTIONAL_ID)
    if producer.init() == ErrorCode.CONCURRENT_TRANSACTIONS:
        assert producer.init() == 0, "what was open is aborted by now"
    assert producer.producer_id == transaction.producer_id


def own_logs(stage: BrokerStage) -> dict[str, PartitionLog]:
    """Return the logs of the internal topics with the group and the transactional id, by topic."""
    state = stage.broker.state
    places = {
        OFFSETS: state.coordinator.partition_of(GROUP),
        TRANSACTIONS: state.cluster.transactions.partition_of(TRANSACTIONAL_ID),
    }
    return {topic: state.topics.get(topic).partitions[partition] for topic, partition in places.items()}


def warnings_of(stage: BrokerStage) -> list[str]:
    """Return the warnings and errors logged since the last call."""
    return [note.text for note in stage.broker.take_notes() if note.level >= Level.WARNING]
