"""OffsetFetch for the start positions of partitions: errors and retries."""

from __future__ import annotations

import pytest

from kohort.client.group.member_states import ConsumerMemberState
from kohort.client.reading.subscription import Position
from kohort.errors import ApiError, ApiTimeout, ErrorCode
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offsets import OffsetFetchRequest
from kohort_lab.machines.scripted import HANG_UP, SILENCE
from support.machines.consumer_stage import tp
from support.machines.scripted_coordinator import INTERVAL_MS, ScriptedCoordinator

E = ErrorCode
SLOW = {"retry_backoff_ms": 10_000, "retry_backoff_max_ms": 10_000}


@pytest.fixture
def stage() -> ScriptedCoordinator:
    return ScriptedCoordinator()


def fetch_epochs(stage: ScriptedCoordinator) -> list[int]:
    return [request.groups[0].member_epoch for request in stage.sent(OffsetFetchRequest)]


@pytest.mark.parametrize(
    "answer", [E.STALE_MEMBER_EPOCH, E.UNKNOWN_MEMBER_ID, E.COORDINATOR_LOAD_IN_PROGRESS, E.UNSTABLE_OFFSET_COMMIT]
)
def test_offset_fetch_is_retried_after_retriable_error(stage: ScriptedCoordinator, answer: object):
    stage.then(OffsetFetchRequest, answer)
    stage.member(**SLOW)
    stage.until(lambda: fetch_epochs(stage))

    stage.polls(7_900)
    assert fetch_epochs(stage) == [1]

    stage.polls(4_200)
    assert fetch_epochs(stage) == [1, 1]


def test_offset_fetch_is_repeated_at_once_after_member_epoch_change(stage: ScriptedCoordinator):
    user = stage.joined(**SLOW)
    stage.until(lambda: user.records)
    before = fetch_epochs(stage)
    beats = len(stage.beats)
    stage.epoch = 2
    stage.loop.holding_answers = True
    stage.loop.run_until(lambda: len(stage.beats) > beats, INTERVAL_MS)
    stage.then(OffsetFetchRequest, E.STALE_MEMBER_EPOCH)
    promise = user.machine.committed([tp("t-0")], stage.now_ms + 60_000)
    stage.loop.settle()
    assert fetch_epochs(stage) == [*before, 1]

    stage.loop.release_answers()
    stage.loop.settle()

    assert promise.done
    assert fetch_epochs(stage) == [*before, 1, 2]


@pytest.mark.parametrize(("answer", "lookups"), [(E.NOT_COORDINATOR, 2), (HANG_UP, 2), (E.UNSTABLE_OFFSET_COMMIT, 1)])
def test_offset_fetch_error_of_moved_coordinator_causes_coordinator_lookup(
    stage: ScriptedCoordinator, answer: object, lookups: int
):
    stage.then(OffsetFetchRequest, answer)
    user = stage.member()

    stage.until(lambda: user.records)

    assert len(stage.sent(FindCoordinatorRequest)) == lookups


def test_offset_fetch_of_recreated_topic_refreshes_metadata(stage: ScriptedCoordinator):
    user = stage.joined()
    stage.until(lambda: user.records)
    request_count = len(stage.sent(MetadataRequest))
    stage.then(OffsetFetchRequest, E.UNKNOWN_TOPIC_ID)

    assert stage.settled(user.machine.committed([tp("t-0")], stage.now_ms + 5_000)) == {tp("t-0"): None}

    assert len(stage.sent(MetadataRequest)) == request_count + 1


def test_offset_fetch_fails_at_deadline(stage: ScriptedCoordinator):
    user = stage.joined(**SLOW)
    stage.then(OffsetFetchRequest, *[E.COORDINATOR_LOAD_IN_PROGRESS] * 9)
    deadline_ms = stage.now_ms + 3_000
    promise = user.machine.committed([tp("t-0")], deadline_ms)

    stage.loop.run_until(lambda: promise.done)

    assert isinstance(promise.error, ApiTimeout)
    assert stage.now_ms == deadline_ms


def test_offset_fetch_without_coordinator_fails_at_deadline(stage: ScriptedCoordinator):
    stage.then(FindCoordinatorRequest, SILENCE)
    user = stage.user(group_id="g", request_timeout_ms=30_000)
    deadline_ms = stage.now_ms + 3_000
    promise = user.machine.committed([tp("t-0")], deadline_ms)

    stage.loop.run_until(lambda: promise.done)

    assert isinstance(promise.error, ApiTimeout)
    assert stage.now_ms == deadline_ms


def test_permanent_offset_fetch_error_is_raised_and_next_request_waits_for_back_off(stage: ScriptedCoordinator):
    user = stage.member(**SLOW)
    stage.then(OffsetFetchRequest, E.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(ApiError, match="the committed offsets of group 'g'"):
        stage.polls(1_000)
    assert user.membership.state is ConsumerMemberState.STABLE

    stage.polls(6_000)
    assert len(fetch_epochs(stage)) == 1
    stage.until(lambda: user.records, 8_000)


def test_failed_offset_fetch_of_assigned_partition_is_retried_when_back_off_ends(stage: ScriptedCoordinator):
    user = stage.member(**SLOW)
    stage.then(OffsetFetchRequest, E.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(ApiError):
        stage.polls(1_000)
    retry_at_ms = user.machine.subscription.state(tp("t-0")).retry_at_ms

    stage.loop.run(retry_at_ms - 1 - stage.now_ms)
    assert len(fetch_epochs(stage)) == 1

    stage.loop.run(1)
    stage.loop.settle()
    assert len(fetch_epochs(stage)) == 2


def test_committed_call_without_partitions_sends_no_request(stage: ScriptedCoordinator):
    user = stage.user(group_id="g")

    promise = user.machine.committed([], stage.now_ms)

    assert promise.done
    assert promise.result() == {}
    stage.loop.settle()
    assert fetch_epochs(stage) == []


def test_start_and_end_of_offset_fetch_outage_are_logged(stage: ScriptedCoordinator):
    stage.then(OffsetFetchRequest, *[E.UNSTABLE_OFFSET_COMMIT] * 20)
    user = stage.member()

    stage.until(lambda: user.records)

    first, last = [note.text for note in user.notes_besides_resets()]
    assert first.startswith("the committed offsets of group 'g': UNSTABLE_OFFSET_COMMIT; retrying")
    assert last.startswith("the committed offsets of group 'g' are available, after ")


def test_seek_overrides_committed_offset_of_its_partition_only(stage: ScriptedCoordinator):
    stage.assign("t-0 t-1")
    stage.then(OffsetFetchRequest, E.COORDINATOR_LOAD_IN_PROGRESS)
    user = stage.member(**SLOW)
    stage.until(lambda: fetch_epochs(stage))
    stage.polls(1_000)
    user.machine.subscription.seek(tp("t-0"), Position(70))

    stage.until(lambda: user.machine.position(tp("t-1")) is not None)

    assert len(fetch_epochs(stage)) == 2
    assert user.machine.position(tp("t-0")) >= 70
