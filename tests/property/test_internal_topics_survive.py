"""After any client request about internal topics, a restart finds every group and transactional id."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.wire.compression import Codec
from kohort.wire.messages.producer_ids import InitProducerIdRequest
from kohort.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kohort.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.broker_stage import BrokerStage, Peer, produce_request
from support.machines.populated import OFFSETS, TRANSACTIONS, check_all_is_there, own_logs, populate, warnings_of
from support.raw.transactional import Transactional

names = st.sampled_from([TRANSACTIONS, TRANSACTIONS, OFFSETS, "__kohort_journal", "a"])
partitions = st.sampled_from([0, 0, 1, 1, -1, 5])
places = st.lists(partitions, min_size=1, max_size=4)
ids = st.sampled_from(["evil", "evil", "t", "", "other"])
EVIL = 1
"""The producer id of "evil": the second that is given out."""
producers = st.sampled_from([EVIL, EVIL, -1, 0, 7])
epochs = st.sampled_from([0, 0, 1, -1, 0x7FFF])

marked = st.lists(st.builds(WritableTxnMarkerTopic, name=names, partition_indexes=places), max_size=2)

batches = st.builds(
    lambda key, value, producer, epoch, transactional, control, codec: build_batch(
        [NewRecord(key, value, (), 1)],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=-1 if producer < 0 else 0,
        is_transactional=transactional,
        is_control=control,
        codec=codec,
    ),
    st.binary(max_size=8) | st.none(),
    st.none() | st.binary(max_size=8),
    producers,
    epochs,
    st.booleans(),
    st.booleans(),
    st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.ZSTD]),
)


def produced(name, batch, partition, transactional_id):
    request = produce_request(name, batch, partition=partition)
    request.transactional_id = transactional_id or None
    return request


requests = st.one_of(
    st.tuples(
        st.builds(produced, names.filter(lambda n: n != "a"), batches | st.binary(max_size=80), partitions, ids),
        st.sampled_from([9, 12]),
    ),
    st.tuples(
        st.builds(
            AddPartitionsToTxnRequest,
            v3_and_below_transactional_id=st.just("evil"),
            v3_and_below_producer_id=st.just(EVIL),
            v3_and_below_producer_epoch=st.just(0),
            v3_and_below_topics=st.lists(
                st.builds(AddPartitionsToTxnTopic, name=names, partitions=st.sampled_from([[0], [0, 1]])),
                min_size=1,
                max_size=2,
            ),
        ),
        st.just(3),
    ),
    st.tuples(
        st.builds(
            AddPartitionsToTxnRequest,
            transactions=st.lists(
                st.builds(
                    AddPartitionsToTxnTransaction,
                    transactional_id=ids,
                    producer_id=producers,
                    producer_epoch=epochs,
                    verify_only=st.booleans(),
                    topics=st.lists(st.builds(AddPartitionsToTxnTopic, name=names, partitions=places), max_size=2),
                ),
                max_size=2,
            ),
        ),
        st.just(5),
    ),
    st.tuples(
        st.builds(
            WriteTxnMarkersRequest,
            markers=st.lists(
                st.builds(
                    WritableTxnMarker,
                    producer_id=producers,
                    producer_epoch=epochs,
                    transaction_result=st.booleans(),
                    coordinator_epoch=st.sampled_from([-1, 0, 2**31 - 1]),
                    topics=marked,
                ),
                max_size=2,
            ),
        ),
        st.just(1),
    ),
    st.tuples(
        st.builds(
            AddOffsetsToTxnRequest, transactional_id=ids, producer_id=producers, producer_epoch=epochs, group_id=ids
        ),
        st.just(3),
    ),
    st.tuples(
        st.builds(
            TxnOffsetCommitRequest,
            transactional_id=ids,
            group_id=ids,
            producer_id=producers,
            producer_epoch=epochs,
            topics=st.just(
                [
                    TxnOffsetCommitRequestTopic(
                        name="a", partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)]
                    )
                ]
            ),
        ),
        st.sampled_from([3, 5]),
    ),
    st.tuples(
        st.builds(
            EndTxnRequest,
            transactional_id=ids.filter(lambda t: t != "t"),
            producer_id=producers,
            producer_epoch=epochs,
            committed=st.booleans(),
        ),
        st.sampled_from([3, 5]),
    ),
    st.tuples(
        st.builds(
            InitProducerIdRequest,
            transactional_id=st.sampled_from(["evil", "other"]),
            transaction_timeout_ms=st.just(500),
        ),
        st.just(4),
    ),
    st.tuples(
        st.builds(
            DeleteRecordsRequest,
            topics=st.lists(
                st.builds(
                    DeleteRecordsTopic,
                    name=names,
                    partitions=st.lists(
                        st.builds(DeleteRecordsPartition, partition_index=partitions, offset=st.integers(-1, 2)),
                        max_size=2,
                    ),
                ),
                max_size=2,
            ),
            timeout_ms=st.just(1000),
        ),
        st.just(2),
    ),
    st.tuples(
        st.builds(
            DeleteTopicsRequest,
            topics=st.lists(st.builds(DeleteTopicState, name=names.filter(lambda n: n != "a")), max_size=2),
            timeout_ms=st.just(1000),
        ),
        st.just(6),
    ),
    st.tuples(
        st.builds(
            CreatePartitionsRequest,
            topics=st.lists(st.builds(CreatePartitionsTopic, name=names, count=st.integers(-1, 8)), max_size=1),
            timeout_ms=st.just(1000),
        ),
        st.just(3),
    ),
)


def ask_and_ignore(peer: Peer, message, version: int) -> None:
    """Ask as the one client that Kafka trusts by its name; an answer or a hang-up, whichever comes."""
    peer.send(message, version, client_id="__admin_client")
    peer.take_all()


@settings(max_examples=100)
@given(calls=st.lists(requests, min_size=1, max_size=8), pause_ms=st.sampled_from([0, 700]), cleanly=st.booleans())
def test_the_next_start_finds_all_groups(calls, pause_ms, cleanly):
    stage = BrokerStage(transaction_state_log_num_partitions=2)
    ann = populate(stage)
    peer = stage.connect()
    evil = Transactional(peer, "evil", timeout_ms=500)
    assert evil.init() == 0
    assert (evil.producer_id, evil.epoch) == (EVIL, 0)
    stage.broker.take_notes()
    counts = {name: len(stage.broker.state.topics.get(name).partitions) for name in own_logs(stage)}

    for message, version in calls:
        if peer.closed is not None:
            peer = stage.connect()
        ask_and_ignore(peer, message, version)
        stage.advance(pause_ms)
    stage.restart(cleanly=cleanly)

    assert warnings_of(stage) == []
    assert {name: len(stage.broker.state.topics.get(name).partitions) for name in counts} == counts
    check_all_is_there(stage, ann)
