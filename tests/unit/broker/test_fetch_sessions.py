"""Incremental fetch sessions (KIP-227)."""

from kohort.broker.fetch_sessions import PARTITIONS_PER_SLOT
from kohort.errors import ErrorCode
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kohort.wire.messages.topics import DeleteTopicsRequest
from support.machines.broker_stage import BrokerStage, values_of

V = 12


def ask(peer, session_id=0, epoch=0, partitions=(), forget=(), topic="a", **options):
    request_partitions = [
        FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=1 << 20) for p, o in partitions
    ]
    request = FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic=topic, partitions=request_partitions)] if request_partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=list(forget))] if forget else [],
        **options,
    )
    return peer.ask(request, V)


def returned_partitions(answer) -> list[int]:
    return [p.partition_index for t in answer.responses for p in t.partitions]


def opened(peer, partitions=3) -> int:
    peer.create("a", partitions)
    answer = ask(peer, partitions=[(p, 0) for p in range(partitions)])
    assert returned_partitions(answer) == list(range(partitions))
    return answer.session_id


def test_full_fetch_opens_a_session_on_request(peer, stage):
    assert opened(peer) > 0
    assert len(stage.broker.state.sessions) == 1


def test_fetch_with_the_final_epoch_opens_no_session(peer, stage):
    peer.create("a")

    assert ask(peer, epoch=-1, partitions=[(0, 0)]).session_id == 0
    assert len(stage.broker.state.sessions) == 0


def test_incremental_response_has_only_changed_partitions(peer):
    session = opened(peer)
    peer.produce("a", b"1", partition=1)

    first = ask(peer, session, 1)
    second = ask(peer, session, 2, partitions=[(1, 1)])
    third = ask(peer, session, 3)

    assert (first.session_id, returned_partitions(first)) == (session, [1])
    assert values_of(first.responses[0].partitions[0].records) == [b"1"]
    assert returned_partitions(second) == []
    assert returned_partitions(third) == []


def test_forgotten_partition_is_removed_from_the_session_and_a_new_one_added(peer):
    session = opened(peer)
    peer.create("b")
    ask(peer, session, 1, forget=[0])
    ask(peer, session, 2, partitions=[(0, 0)], topic="b")
    peer.produce("a", b"1", partition=0)
    peer.produce("b", b"2")

    answer = ask(peer, session, 3)

    assert [(t.topic, [p.partition_index for p in t.partitions]) for t in answer.responses] == [("b", [0])]


def test_fetch_session_without_partitions_is_closed(peer, stage):
    session = opened(peer)

    answer = ask(peer, session, 1, forget=[0, 1, 2])

    assert (answer.session_id, answer.error_code, returned_partitions(answer)) == (0, 0, [])
    assert len(stage.broker.state.sessions) == 0


def test_partition_whose_records_were_returned_is_read_last_by_the_next_fetch(peer):
    session = opened(peer)
    for partition in range(3):
        peer.produce("a", b"x" * 100, partition=partition)

    first = ask(peer, session, 1, max_bytes=1)
    second = ask(peer, session, 2, max_bytes=1)

    with_records = [
        [p.partition_index for t in answer.responses for p in t.partitions if p.records] for answer in (first, second)
    ]
    assert with_records == [[0], [1]]


def test_incremental_response_repeats_an_error_and_reports_when_it_is_gone(peer):
    session = opened(peer, 1)
    ask(peer, session, 1, partitions=[(0, 99)])

    again = ask(peer, session, 2)
    mended = ask(peer, session, 3, partitions=[(0, 0)])

    assert again.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert returned_partitions(mended) == [0]
    assert mended.responses[0].partitions[0].error_code == 0


def test_session_reports_a_deleted_topic(peer):
    session = opened(peer, 1)

    peer.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1), 5)

    assert ask(peer, session, 1).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_fetch_with_an_invalid_session_id_session_epoch_or_kind_of_topic_key_is_rejected(peer):
    session = opened(peer)

    unknown = ask(peer, session + 1, 1)
    skipped = ask(peer, session, 5)
    other_kind = peer.ask(FetchRequest(session_id=session, session_epoch=1), 13)

    assert [(a.error_code, a.responses) for a in (unknown, skipped, other_kind)] == [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, []),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, []),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, []),
    ]


def test_epoch_0_with_a_session_id_replaces_the_session(peer, stage):
    session = opened(peer)

    renewed = ask(peer, session, 0, partitions=[(0, 0)]).session_id

    assert renewed not in {0, session}
    assert len(stage.broker.state.sessions) == 1


def test_session_is_evicted_after_two_idle_minutes():
    stage = BrokerStage(max_incremental_fetch_session_cache_slots=1)
    first, second = stage.connect(), stage.connect()
    session = opened(first)

    assert ask(second, partitions=[(0, 0)]).session_id == 0
    stage.advance(120_001)

    assert ask(second, partitions=[(0, 0)]).session_id > 0
    assert ask(first, session, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_old_session_is_evicted_only_for_a_session_of_more_partitions():
    stage = BrokerStage(max_incremental_fetch_session_cache_slots=1)
    small, large = stage.connect(), stage.connect()
    small.create("a", 3)
    session = ask(small, partitions=[(0, 0), (1, 0)]).session_id
    stage.advance(100_000)
    ask(small, session, 1)
    stage.advance(100_000)

    assert ask(large, partitions=[(0, 0)]).session_id == 0
    assert ask(large, partitions=[(0, 0), (1, 0), (2, 0)]).session_id > 0


def test_woken_session_fetch_has_only_changed_partitions(peer, stage):
    session = opened(peer)
    peer.send(FetchRequest(session_id=session, session_epoch=1, max_wait_ms=1000, min_bytes=1), V)
    assert peer.take() is None

    stage.connect().produce("a", b"1", partition=2)

    assert returned_partitions(peer.take()) == [2]


def test_session_epoch_wraps_to_1(peer, stage):
    session = opened(peer)
    (kept,) = stage.broker.state.sessions._sessions.values()
    kept.next_epoch = 0x7FFFFFFF

    ask(peer, session, 0x7FFFFFFF)

    assert ask(peer, session, 1).error_code == 0


def test_client_above_the_limit_of_partitions_gets_no_session():
    stage = BrokerStage(max_incremental_fetch_session_cache_slots=2)
    peer = stage.connect()
    many = [(p, 0) for p in range(2 * PARTITIONS_PER_SLOT - 1)]
    first = ask(peer, partitions=many)
    second = ask(peer, partitions=[(0, 0), (1, 0)])

    assert first.session_id > 0
    assert second.session_id == 0
    assert len(returned_partitions(second)) == 2


def test_session_that_grows_above_the_limit_of_partitions_is_closed():
    stage = BrokerStage(max_incremental_fetch_session_cache_slots=1)
    peer = stage.connect()
    session = ask(peer, partitions=[(0, 0)]).session_id

    grown = ask(peer, session, 1, partitions=[(p, 0) for p in range(PARTITIONS_PER_SLOT + 1)])

    assert grown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(stage.broker.state.sessions) == 0
