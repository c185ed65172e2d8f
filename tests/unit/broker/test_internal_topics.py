"""Internal topics: rejected writes of clients, and invalid records in the log."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.producer_ids import DescribeProducersRequest, DescribeProducersTopic
from kohort.wire.messages.topics import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kohort.wire.record_batch import Marker, NewRecord, build_batch
from support.machines.broker_stage import BrokerStage, produce_request
from support.machines.populated import GROUP, OFFSETS, TRANSACTIONS, check_all_is_there, own_logs, populate, warnings_of
from support.raw.transactional import Transactional, committed_offset

OWN = [OFFSETS, TRANSACTIONS, "__kohort_journal"]
NOW_MS = 1_700_000_000_000


@pytest.fixture
def ann(stage):
    member = populate(stage)
    stage.broker.take_notes()
    return member


def ends(stage):
    state = stage.broker.state
    return [log.log_end_offset for name in OWN for log in state.topics.get(name).partitions]


def codes_of(topics):
    return {t.name: {p.partition_error_code for p in t.results_by_partition} for t in topics}


def garbage(key=b"junk", value=b"rubbish", **options):
    return build_batch([NewRecord(key, value, (), NOW_MS)], **options)


class TestWritesOfClients:
    @pytest.mark.parametrize("topic", OWN)
    @pytest.mark.parametrize("client_id", ["tester", "__admin_client"])
    def test_produce_to_an_internal_topic_is_rejected(self, stage, ann, topic, client_id):
        before = ends(stage)

        request = produce_request(topic, garbage())
        answer = ann.wire.ask(request, 9, client_id=client_id).responses[0].partition_responses[0]

        assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert ends(stage) == before

    @pytest.mark.parametrize("new", [False, True])
    def test_transactional_produce_to_an_internal_topic_is_rejected(self, stage, ann, new):
        producer = Transactional(stage.connect(), "evil", new=new)
        producer.init()
        request = produce_request(TRANSACTIONS, producer.batch(TRANSACTIONS, (b"x",), key=b"k"))
        request.transactional_id = "evil"
        before = ends(stage)

        answer = producer.peer.ask(request, 12 if new else 9, client_id="__admin_client")

        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert ends(stage) == before

    @pytest.mark.parametrize("topic", [*OWN, "__share_group_state"])
    def test_add_partitions_of_an_internal_topic_is_rejected(self, stage, ann, topic):
        producer = Transactional(stage.connect(), "evil")
        producer.init()
        before = ends(stage)
        topics = [AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in (topic, "a")]
        alone = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="evil",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=topics,
        )
        one_of_several = AddPartitionsToTxnTransaction(
            transactional_id="evil", producer_id=producer.producer_id, producer_epoch=producer.epoch, topics=topics
        )
        why = ErrorCode.TOPIC_AUTHORIZATION_FAILED if topic in OWN else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        old = producer.peer.ask(alone, 3).results_by_topic_v3_and_below
        new = producer.peer.ask(AddPartitionsToTxnRequest(transactions=[one_of_several]), 5).results_by_transaction

        assert codes_of(old) == codes_of(new[0].topic_results) == {topic: {why}, "a": {55}}
        assert ends(stage) == before

    def test_verify_only_request_for_an_internal_topic_is_answered(self, stage, ann):
        producer = Transactional(stage.connect(), "mover")
        producer.init()
        producer.commit_offsets(GROUP, "a", 3)
        place = stage.broker.state.coordinator.partition_of(GROUP)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id="mover",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name=OFFSETS, partitions=[place])],
        )

        answer = producer.peer.ask(AddPartitionsToTxnRequest(transactions=[transaction]), 5).results_by_transaction

        assert codes_of(answer[0].topic_results) == {OFFSETS: {0}}

    @pytest.mark.parametrize("topic", OWN)
    def test_marker_for_an_internal_topic_is_rejected(self, stage, ann, topic):
        before = ends(stage)

        answer = ann.wire.ask(markers(topic, producer_id=0, epoch=5), 1)

        assert code_of(answer) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert ends(stage) == before

    def test_delete_records_of_an_internal_topic_is_rejected(self, stage, ann):
        partition = DeleteRecordsPartition(partition_index=own_logs(stage)[OFFSETS].tp.partition, offset=-1)
        topic = DeleteRecordsTopic(name=OFFSETS, partitions=[partition])

        answer = ann.wire.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)

        assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def markers(topic, producer_id, epoch, *, partition=0, commit=False):
    topics = [WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])]
    marker = WritableTxnMarker(producer_id=producer_id, producer_epoch=epoch, transaction_result=commit, topics=topics)
    return WriteTxnMarkersRequest(markers=[marker])


def code_of(answer):
    return answer.markers[0].topics[0].partitions[0].error_code


def test_administrator_ends_a_hanging_transaction_in_the_offsets_topic(stage, ann):
    ann.leave()
    producer = Transactional(stage.connect(), "mover")
    producer.init()
    assert producer.commit_offsets(GROUP, "a", 9) == 0
    assert committed_offset(ann.wire, GROUP, "a", stable=True)[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    place = stage.broker.state.coordinator.partition_of(GROUP)
    request = markers(OFFSETS, producer.producer_id, producer.epoch, partition=place)

    assert code_of(ann.wire.ask(request, 1)) == 0

    assert committed_offset(ann.wire, GROUP, "a", stable=True) == (0, 7)
    assert code_of(ann.wire.ask(request, 1)) == ErrorCode.TOPIC_AUTHORIZATION_FAILED, (
        "the partition has no open transaction"
    )


def test_hanging_transaction_in_the_offsets_topic_can_be_ended_after_a_restart(stage, ann):
    ann.leave()
    producer = Transactional(stage.connect(), "mover")
    producer.init()
    assert producer.commit_offsets(GROUP, "a", 9) == 0
    place = stage.broker.state.coordinator.partition_of(GROUP)
    stage.restart()
    admin = stage.connect()
    assert committed_offset(admin, GROUP, "a", stable=True)[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    described = DescribeProducersRequest(topics=[DescribeProducersTopic(name=OFFSETS, partition_indexes=[place])])
    (active_producer,) = admin.ask(described, 0).topics[0].partitions[0].active_producers
    assert (active_producer.producer_id, active_producer.current_txn_start_offset >= 0) == (producer.producer_id, True)

    assert (
        code_of(
            admin.ask(markers(OFFSETS, active_producer.producer_id, active_producer.producer_epoch, partition=place), 1)
        )
        == 0
    )

    assert committed_offset(admin, GROUP, "a", stable=True) == (0, 7)
    (active_producer,) = admin.ask(described, 0).topics[0].partitions[0].active_producers
    assert (active_producer.current_txn_start_offset, active_producer.coordinator_epoch) == (-1, 0)
    stage.restart()
    assert committed_offset(stage.connect(), GROUP, "a", stable=True) == (0, 7), "the marker is in the log"


class TestInvalidRecords:
    @pytest.mark.parametrize("cleanly", [True, False])
    def test_marker_in_the_transaction_topic_is_skipped_at_broker_start(self, stage, ann, cleanly):
        log = own_logs(stage)[TRANSACTIONS]
        log.end_transaction(Marker(1, 0, committed=True, coordinator_epoch=0), stage.now_ms)

        stage.restart(cleanly=cleanly)

        assert f"{log.tp}: skipped 1 unreadable records: a marker of producer 1: " in warnings_of(stage)[0]
        check_all_is_there(stage, ann)

    @pytest.mark.parametrize("topic", [OFFSETS, TRANSACTIONS])
    @pytest.mark.parametrize(
        "batch",
        [
            garbage(),
            garbage(key=b""),
            garbage(key=None),
            garbage(key=b"\x00\x02\x00\x01g", value=b"\x00\x63"),
            garbage(key=b"\x00\x01\x7f\xff", value=None),
            garbage(key=b"\x00\x00\xff\xff", value=b"\x00\x01"),
            garbage(producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True),
        ],
        ids=["rubbish", "no key bytes", "no key", "of a later version", "cut", "negative", "in a transaction"],
    )
    def test_invalid_record_in_an_internal_topic_is_skipped(self, stage, ann, topic, batch):
        log = own_logs(stage)[topic]
        log.append(batch, stage.now_ms, from_client=False)

        stage.restart()

        (warning,) = warnings_of(stage)
        assert warning.startswith(f"{log.tp}: skipped 1 unreadable records: ")
        check_all_is_there(stage, ann)

    @pytest.mark.parametrize("cleanly", [True, False])
    def test_unknown_control_batch_is_skipped_at_broker_start(self, stage, ann, cleanly):
        for log in own_logs(stage).values():
            batch = garbage(key=b"j", producer_id=9, producer_epoch=0, is_transactional=True, is_control=True)
            log.append(batch, stage.now_ms, from_client=False)

        stage.restart(cleanly=cleanly)

        warnings = warnings_of(stage)
        assert sum("ignored the control batch at offset" in line for line in warnings) == (0 if cleanly else 2)
        assert sum("skipped 1 unreadable records: the batch at offset" in line for line in warnings) == 2
        check_all_is_there(stage, ann)

    def test_many_invalid_records_are_logged_in_one_line(self, stage, ann):
        log = own_logs(stage)[OFFSETS]
        for _ in range(10):
            records = [NewRecord(b"\x1b[2J\n" * 100, b"x" * 100, (), NOW_MS)] * 500
            log.append(build_batch(records), stage.now_ms, from_client=False)

        stage.restart()

        (warning,) = warnings_of(stage)
        assert len(warning) < 1_000
        assert warning.endswith("; and 4997 more")
        check_all_is_there(stage, ann)

    def test_damaged_batch_makes_only_its_partition_unavailable(self, stage, ann):
        damaged = own_logs(stage)[OFFSETS]
        stage.broker.close(stage.now_ms)
        name = next(name for name in stage.storage.files(damaged.folder) if name.endswith(".log"))
        data = bytearray(stage.storage.read(f"{damaged.folder}/{name}"))
        data[70] ^= 1
        stage.storage.replace(f"{damaged.folder}/{name}", bytes(data))

        stage.start()

        ann.wire = stage.connect()
        assert ann.heartbeat() == ErrorCode.NOT_COORDINATOR
        assert any(f"the groups of {damaged.tp} cannot be coordinated" in warning for warning in warnings_of(stage))
        count = stage.broker.state.offsets_topic.partition_count
        others = [g for g in "hijklm" if stage.broker.state.coordinator.partition_of(g) != damaged.tp.partition]
        assert count > 1
        assert committed_offset(ann.wire, others[0], "a") == (0, -1)


def test_open_transaction_that_contains_internal_topics_is_ended_at_broker_start():
    stage = BrokerStage()
    ann = populate(stage)
    transactions = stage.broker.state.cluster.transactions
    evil = Transactional(stage.connect(), "evil", timeout_ms=1_000)
    evil.init()
    places = [own_logs(stage)[TRANSACTIONS].tp, own_logs(stage)[OFFSETS].tp]
    transactions.add("evil", transactions.get("evil"), places, 0, stage.now_ms)

    for cleanly in (False, True):
        stage.advance(2_000)
        stage.restart(cleanly=cleanly)

    assert stage.broker.state.cluster.transactions.get("evil").partitions == frozenset()
    check_all_is_there(stage, ann)
