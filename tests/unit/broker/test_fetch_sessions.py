"""Incremental fetch sessions (KIP-227): what is asked, what is told, what goes wrong."""

from kohort.broker.fetch_sessions import PARTITIONS_PER_SLOT
from kohort.errors import ErrorCode
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kohort.wire.messages.topics import DeleteTopicsRequest
from support.machines.broker_stage import BrokerStage, values_of

V = 12


def ask(peer, session_id=0, epoch=0, partitions=(), forget=(), topic="a", **options):
    asked = [FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=1 << 20) for p, o in partitions]
    request = FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic=topic, partitions=asked)] if asked else [],
        forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=list(forget))] if forget else [],
        **options,
    )
    return peer.ask(request, V)


def told(answer) -> list[int]:
    return [p.partition_index for t in answer.responses for p in t.partitions]


def opened(peer, partitions=3) -> int:
    """A session over ``partitions`` empty partitions of topic a."""
    peer.create("a", partitions)
    answer = ask(peer, partitions=[(p, 0) for p in range(partitions)])
    assert told(answer) == list(range(partitions))
    return answer.session_id


def test_a_full_fetch_that_wants_a_session_gets_one(peer, stage):
    assert opened(peer) > 0
    assert len(stage.broker.state.sessions) == 1


def test_the_final_epoch_gets_none(peer, stage):
    peer.create("a")

    assert ask(peer, epoch=-1, partitions=[(0, 0)]).session_id == 0
    assert len(stage.broker.state.sessions) == 0


def test_an_incremental_answer_holds_only_what_has_news(peer):
    session = opened(peer)
    peer.produce("a", b"1", partition=1)

    first = ask(peer, session, 1)
    second = ask(peer, session, 2, partitions=[(1, 1)])
    third = ask(peer, session, 3)

    assert (first.session_id, told(first)) == (session, [1])
    assert values_of(first.responses[0].partitions[0].records) == [b"1"]
    assert told(second) == []
    assert told(third) == []


def test_a_forgotten_partition_is_read_no_more_and_a_new_one_is(peer):
    session = opened(peer)
    peer.create("b")
    ask(peer, session, 1, forget=[0])
    ask(peer, session, 2, partitions=[(0, 0)], topic="b")
    peer.produce("a", b"1", partition=0)
    peer.produce("b", b"2")

    answer = ask(peer, session, 3)

    assert [(t.topic, [p.partition_index for p in t.partitions]) for t in answer.responses] == [("b", [0])]


def test_a_session_from_which_all_is_forgotten_is_gone(peer, stage):
    session = opened(peer)

    answer = ask(peer, session, 1, forget=[0, 1, 2])

    assert (answer.session_id, answer.error_code, told(answer)) == (0, 0, [])
    assert len(stage.broker.state.sessions) == 0


def test_a_busy_partition_is_read_after_the_others_next_time(peer):
    session = opened(peer)
    for partition in range(3):
        peer.produce("a", b"x" * 100, partition=partition)

    first = ask(peer, session, 1, max_bytes=1)
    second = ask(peer, session, 2, max_bytes=1)

    with_records = [
        [p.partition_index for t in answer.responses for p in t.partitions if p.records] for answer in (first, second)
    ]
    assert with_records == [[0], [1]]


def test_an_error_is_told_each_time_and_so_is_the_recovery(peer):
    session = opened(peer, 1)
    ask(peer, session, 1, partitions=[(0, 99)])

    again = ask(peer, session, 2)
    mended = ask(peer, session, 3, partitions=[(0, 0)])

    assert again.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert told(mended) == [0]
    assert mended.responses[0].partitions[0].error_code == 0


def test_a_topic_that_is_deleted_is_told_through_the_session(peer):
    session = opened(peer, 1)

    peer.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1), 5)

    assert ask(peer, session, 1).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_wrong_ids_epochs_and_kinds_are_refused_as_a_whole(peer):
    session = opened(peer)

    unknown = ask(peer, session + 1, 1)
    skipped = ask(peer, session, 5)
    other_kind = peer.ask(FetchRequest(session_id=session, session_epoch=1), 13)

    assert [(a.error_code, a.responses) for a in (unknown, skipped, other_kind)] == [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, []),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, []),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, []),
    ]


def test_epoch_0_with_an_id_replaces_the_session(peer, stage):
    session = opened(peer)

    renewed = ask(peer, session, 0, partitions=[(0, 0)]).session_id

    assert renewed not in {0, session}
    assert len(stage.broker.state.sessions) == 1


def test_without_a_free_slot_a_fetch_is_answered_without_a_session_until_one_has_idled_for_two_minutes():
    stage = BrokerStage(max_incremental_fetch_session_cache_slots=1)
    first, second = stage.connect(), stage.connect()
    session = opened(first)

    assert ask(second, partitions=[(0, 0)]).session_id == 0
    stage.advance(120_001)

    assert ask(second, partitions=[(0, 0)]).session_id > 0
    assert ask(first, session, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_old_small_session_gives_way_to_a_larger_one_and_not_the_other_way_round():
    stage = BrokerStage(max_incremental_fetch_session_cache_slots=1)
    small, large = stage.connect(), stage.connect()
    small.create("a", 3)
    session = ask(small, partitions=[(0, 0), (1, 0)]).session_id
    stage.advance(100_000)
    ask(small, session, 1)
    stage.advance(100_000)

    assert ask(large, partitions=[(0, 0)]).session_id == 0
    assert ask(large, partitions=[(0, 0), (1, 0), (2, 0)]).session_id > 0


def test_a_waiting_fetch_of_a_session_is_woken_and_tells_only_the_news(peer, stage):
    session = opened(peer)
    peer.send(FetchRequest(session_id=session, session_epoch=1, max_wait_ms=1000, min_bytes=1), V)
    assert peer.take() is None

    stage.connect().produce("a", b"1", partition=2)

    assert told(peer.take()) == [2]


def test_the_epoch_wraps_to_1(peer, stage):
    session = opened(peer)
    (kept,) = stage.broker.state.sessions._sessions.values()
    kept.next_epoch = 0x7FFFFFFF

    ask(peer, session, 0x7FFFFFFF)

    assert ask(peer, session, 1).error_code == 0


def test_sessions_have_so_many_partitions_and_who_wants_more_fetches_without_one():
    stage = BrokerStage(max_incremental_fetch_session_cache_slots=2)
    peer = stage.connect()
    many = [(p, 0) for p in range(2 * PARTITIONS_PER_SLOT - 1)]
    first = ask(peer, partitions=many)
    second = ask(peer, partitions=[(0, 0), (1, 0)])

    assert first.session_id > 0
    assert second.session_id == 0
    assert len(told(second)) == 2


def test_a_session_that_grows_beyond_all_bounds_ends():
    stage = BrokerStage(max_incremental_fetch_session_cache_slots=1)
    peer = stage.connect()
    session = ask(peer, partitions=[(0, 0)]).session_id

    grown = ask(peer, session, 1, partitions=[(p, 0) for p in range(PARTITIONS_PER_SLOT + 1)])

    assert grown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(stage.broker.state.sessions) == 0
