"""Fetch sessions on the client side (KIP-227)."""

from __future__ import annotations

from kohort.client.reading.fetch_sessions import EPOCH_MAX, FetchSession, PartitionFetch, SessionRequest
from kohort.errors import ErrorCode
from kohort.model import NO_UUID, TopicPartition
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from support.machines.consumer_stage import tp

IDS = {"t": b"t" * 16, "u": b"u" * 16}


def fetches(**offsets: int) -> dict[TopicPartition, PartitionFetch]:
    return {tp(f"{k[0]}-{k[1]}"): PartitionFetch(IDS[k[0]], offset, 1, 100) for k, offset in offsets.items()}


def answer(*partitions: str, session_id: int = 9, error_code: int = 0) -> FetchResponse:
    return FetchResponse(
        session_id=session_id,
        error_code=error_code,
        responses=[
            FetchableTopicResponse(topic_id=IDS[p[0]], partitions=[PartitionData(partition_index=int(p[1]))])
            for p in partitions
        ],
    )


def offsets_of(request: SessionRequest) -> dict[str, int]:
    return {f"{t.topic}{p.partition}": p.fetch_offset for t in request.topics for p in t.partitions}


def opened() -> FetchSession:
    session = FetchSession()
    session.build(fetches(t0=0, t1=0))
    assert session.take(answer("t0", "t1"))
    return session


def test_first_fetch_is_full_and_starts_a_fetch_session():
    request = FetchSession().build(fetches(t0=0, u0=3))

    assert (request.session_id, request.session_epoch) == (0, 0)
    assert offsets_of(request) == {"t0": 0, "u0": 3}


def test_later_fetch_in_session_sends_only_changed_partitions():
    session = opened()

    request = session.build(fetches(t0=5, t1=0))

    assert (request.session_id, request.session_epoch, offsets_of(request), request.forgotten) == (9, 1, {"t0": 5}, [])
    assert session.take(answer("t0"))
    assert session.build(fetches(t0=5, t1=0))[1:] == (2, [], [])


def test_fetch_session_drops_removed_partition_and_adds_it_again():
    session = opened()

    request = session.build(fetches(t1=0))

    assert [(f.topic, f.topic_id, f.partitions) for f in request.forgotten] == [("t", IDS["t"], [0])]
    session.take(answer())
    assert offsets_of(session.build(fetches(t0=0, t1=0))) == {"t0": 0}


def test_fetch_session_replaces_topic_id_of_recreated_topic():
    session = opened()
    recreated = {p: w._replace(topic_id=b"n" * 16) for p, w in fetches(t0=0, t1=0).items()}

    request = session.build(recreated)

    assert offsets_of(request) == {"t0": 0, "t1": 0}
    assert [(f.topic_id, f.partitions) for f in request.forgotten] == [(IDS["t"], [0, 1])]


def test_broker_without_fetch_sessions_gets_full_fetches():
    session = FetchSession()
    session.build(fetches(t0=0))
    assert session.take(answer("t0", session_id=0))

    assert session.build(fetches(t0=0))[:2] == (0, 0)
    assert not session.is_open


def test_unknown_fetch_session_id_starts_new_session():
    session = opened()
    session.build(fetches(t0=0, t1=0))

    assert not session.take(answer(session_id=0, error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))

    request = session.build(fetches(t0=0, t1=0))
    assert (request.session_id, request.session_epoch, len(offsets_of(request))) == (0, 0, 2)


def test_invalid_epoch_or_lost_request_starts_new_fetch_session():
    session = opened()
    session.build(fetches(t0=0, t1=0))
    assert not session.take(answer(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH))
    assert session.build(fetches(t0=0, t1=0))[:2] == (9, 0)

    session = opened()
    session.build(fetches(t0=0, t1=0))
    session.lost()
    assert session.build(fetches(t0=0, t1=0))[:2] == (9, 0)


def test_fetch_response_with_partitions_outside_session_is_ignored():
    session = opened()
    session.build(fetches(t0=0, t1=0))
    assert not session.take(answer("u0"))
    assert session.build(fetches(t0=0, t1=0))[:2] == (9, 0)

    session = FetchSession()
    session.build(fetches(t0=0, t1=0))
    assert not session.take(answer("t0")), "the response to a full fetch must have all partitions"


def test_full_fetch_follows_fetch_session_that_broker_ends():
    session = opened()
    session.build(fetches(t0=0, t1=0))

    assert session.take(answer("t0", session_id=0))

    assert session.build(fetches(t0=0, t1=0))[:2] == (0, 0)


def test_fetch_session_uses_topic_ids_or_names_but_never_both():
    session = opened()
    nameless = {tp("x-0"): PartitionFetch(NO_UUID, 0, 1, 100)}

    request = session.build(fetches(t0=0) | nameless)

    assert not session.uses_ids
    assert (request.session_id, request.session_epoch) == (9, 0)


def test_fetch_session_epoch_wraps_to_one():
    session = opened()
    session._epoch = EPOCH_MAX
    session.build(fetches(t0=0, t1=0))

    session.take(answer())

    assert session.build(fetches(t0=0, t1=0)).session_epoch == 1


def test_fetch_session_close_removes_all_partitions():
    session = opened()

    request = session.build_close()

    assert (request.session_id, request.session_epoch) == (9, -1)
    assert [f.partitions for f in request.forgotten] == [[0, 1]]
    assert not session.is_open


def test_full_fetch_is_repeated_after_empty_throttled_response():
    session = FetchSession()
    session.build(fetches(t0=0, t1=0))
    assert not session.take(FetchResponse(throttle_time_ms=500))
    again = session.build(fetches(t0=0, t1=0))
    assert (again.session_id, again.session_epoch, offsets_of(again)) == (0, 0, {"t0": 0, "t1": 0})

    session = opened()
    session.build(fetches(t0=5, t1=0))
    assert session.take(FetchResponse(throttle_time_ms=500, session_id=9))
    assert session.build(fetches(t0=5, t1=0))[1:] == (2, [], []), (
        "the broker has applied the changed partition despite throttling"
    )
