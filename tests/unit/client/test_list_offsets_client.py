"""ListOffsets requests of a consumer: log start and end offsets, offsets for timestamps."""

from __future__ import annotations

import pytest

from kohort.client.reading.list_offsets import EARLIEST, LATEST
from kohort.errors import ApiError, ApiTimeout, ErrorCode
from kohort.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kohort_lab.machines.scripted import HANG_UP
from support.machines.consumer_stage import ConsumerStage, tp
from support.machines.scripted_coordinator import ScriptedCoordinator
from support.machines.scripted_group import ScriptedGroup


def test_list_offsets_returns_offsets_of_unsubscribed_topics():
    stage = ConsumerStage()
    stage.topic("t", 2)
    stage.topic("u", 1)
    stage.produce("t", 0, b"a", b"b")
    user = stage.user()

    found = stage.settled(user.machine.list_offsets({tp("t-0"): LATEST, tp("u-0"): LATEST}, stage.now_ms + 5000))

    assert {str(p): o.offset for p, o in found.items()} == {"t-0": 2, "u-0": 0}


def test_offsets_for_times_returns_none_after_last_record():
    stage = ConsumerStage()
    stage.topic("t", 1)
    stage.produce("t", 0, b"a")
    stage.clock.advance(1000)
    stage.produce("t", 0, b"b")
    user = stage.user()
    now_ms = stage.now_ms

    found = stage.settled(user.machine.list_offsets({tp("t-0"): now_ms - 500}, now_ms + 5000))
    later = stage.settled(user.machine.list_offsets({tp("t-0"): now_ms + 60_000}, now_ms + 5000))

    assert (found[tp("t-0")].offset, found[tp("t-0")].timestamp_ms) == (1, now_ms)
    assert later == {tp("t-0"): None}


def test_list_offsets_retries_retriable_errors_until_deadline():
    stage = ScriptedGroup()
    stage.then(ListOffsetsRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER, HANG_UP)
    user = stage.user()

    found = stage.settled(user.machine.list_offsets({tp("t-0"): EARLIEST}, stage.now_ms + 60_000))
    assert found[tp("t-0")].offset == 0

    stage.then(ListOffsetsRequest, *[ErrorCode.LEADER_NOT_AVAILABLE] * 100)
    with pytest.raises(ApiTimeout, match="the offsets of t-0 could not be found in time"):
        stage.settled(user.machine.list_offsets({tp("t-0"): EARLIEST}, stage.now_ms + 5000))


def test_list_offsets_call_fails_at_permanent_error():
    stage = ScriptedGroup()
    stage.then(ListOffsetsRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    user = stage.user()

    with pytest.raises(ApiError, match="TOPIC_AUTHORIZATION_FAILED: the offsets of t-0"):
        stage.settled(user.machine.list_offsets({tp("t-0"): EARLIEST}, stage.now_ms + 5000))


def test_list_offsets_of_missing_partition_times_out():
    stage = ScriptedGroup()
    user = stage.user()

    with pytest.raises(ApiTimeout, match="t-7"):
        stage.settled(user.machine.list_offsets({tp("t-7"): LATEST}, stage.now_ms + 3000))


def test_list_offsets_without_partitions_completes_at_once():
    user = ScriptedGroup().user()

    assert user.machine.list_offsets({}, 0).result() == {}


def test_list_offsets_errors_in_one_response_count_as_one_failure():
    stage = ScriptedCoordinator()

    def refuse_once(request: ListOffsetsRequest, _version: int) -> ListOffsetsResponse:
        answer = stage.on_list_offsets(request)
        for partition in answer.topics[0].partitions:
            is_first = len(stage.sent(ListOffsetsRequest)) == 1
            partition.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_first else 0
        return answer

    stage.one.on(ListOffsetsRequest, refuse_once)
    user = stage.user()
    partitions = {tp(f"t-{n}"): EARLIEST for n in range(4)}

    found = stage.settled(user.machine.list_offsets(partitions, stage.now_ms + 60_000), 120)

    assert found.keys() == partitions.keys()


def test_list_offsets_request_is_sent_when_metadata_name_the_leaders():
    stage = ScriptedCoordinator()
    user = stage.user()

    promise = user.machine.list_offsets({tp(f"t-{n}"): EARLIEST for n in range(4)}, stage.now_ms + 60_000)
    stage.loop.settle()

    assert promise.done
    assert len(stage.sent(ListOffsetsRequest)) == 1
