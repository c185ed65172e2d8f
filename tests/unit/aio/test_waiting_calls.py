from __future__ import annotations

from typing import Any

import pytest

from kohort.aio.consuming.consumer_calls import CommitCallbacks, ConsumerCalls
from kohort.errors import ApiTimeout, UsageError
from kohort.model import OffsetAndMetadata, TopicPartition
from support.machines.consumer_stage import ONE, ConsumerStage, User, tp
from support.machines.stage_waits import StageWaits


class ConsumerUnderTest:
    def __init__(self, stage: ConsumerStage, **options: Any) -> None:
        stage.topic("t", 1)
        stage.produce("t", 0, b"a", b"b", b"c")
        self.stage = stage
        self.user: User = stage.user("t", **{"group_id": "g", "enable_auto_commit": False, **options})
        stage.until(lambda: len(self.user.records) == 3)
        self.waits = StageWaits(self.user)
        self.callbacks = CommitCallbacks()
        self.calls = ConsumerCalls(self.waits, self.callbacks)
        self.notified: list[tuple[str, object]] = []

    def run(self, call: Any) -> Any:
        return self.waits.run_anywhere(call)

    def commit_async(self, name: str, offset: int) -> None:
        promise = self.user.machine.commit({tp("t-0"): OffsetAndMetadata(offset)}, None)
        self.callbacks.append((promise, lambda _, error: self.notified.append((name, error))))

    def committed(self) -> int | None:
        found = self.run(self.calls.committed([tp("t-0")]))[tp("t-0")]
        return None if found is None else int(found.offset)


class Listener:
    def __init__(self, error: Exception | None = None) -> None:
        self.notified: list[str] = []
        self.error = error

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.notified.append(f"revoked {partitions[0]}")
        if self.error is not None:
            raise self.error


def test_commit_call_returns_after_commit_is_persisted():
    tested = ConsumerUnderTest(ConsumerStage())
    tested.run(tested.calls.commit())
    assert tested.committed() == 3


def test_commit_returns_after_callbacks_of_earlier_async_commits_ran_in_order():
    tested = ConsumerUnderTest(ConsumerStage())
    tested.commit_async("first", 1)
    tested.commit_async("second", 2)

    tested.run(tested.calls.commit())

    assert tested.notified == [("first", None), ("second", None)]
    assert tested.callbacks.promises() == []


def test_commit_without_response_times_out():
    tested = ConsumerUnderTest(ConsumerStage())
    began_at_ms = tested.waits.now_ms()
    tested.stage.loop.stop(ONE)

    with pytest.raises(ApiTimeout):
        tested.run(tested.calls.commit(timeout_ms=700))
    assert tested.waits.now_ms() - began_at_ms == 700


def test_positions_end_offsets_and_offsets_for_times_are_queried():
    tested = ConsumerUnderTest(ConsumerStage())
    assert tested.run(tested.calls.position(tp("t-0"))) == 3
    assert tested.run(tested.calls.partitions_for("t")) == 1
    assert tested.run(tested.calls.beginning_offsets([tp("t-0")])) == {tp("t-0"): 0}
    assert tested.run(tested.calls.end_offsets([tp("t-0")])) == {tp("t-0"): 3}
    late = tested.run(tested.calls.offsets_for_times({tp("t-0"): 2**41}))
    assert late == {tp("t-0"): None}
    with pytest.raises(UsageError, match="negative"):
        tested.run(tested.calls.offsets_for_times({tp("t-0"): -1}))


def test_unsubscribe_leaves_group_before_it_raises_the_listener_error():
    tested = ConsumerUnderTest(ConsumerStage())
    tested.waits.listener = Listener(ValueError("I had more to do"))

    with pytest.raises(ValueError, match="I had more to do"):
        tested.run(tested.calls.unsubscribe())

    assert tested.waits.listener.notified == ["revoked t-0"]
    assert tested.user.owned == ""
    other = tested.stage.user("t", group_id="g")
    # another member gets the partition before the session timeout of the departed member
    tested.stage.until(lambda: other.owned == "t-0", limit_ms=5000)


def test_close_of_consumer_commits_and_stops_fetching_despite_listener_error():
    tested = ConsumerUnderTest(ConsumerStage(), enable_auto_commit=True)
    tested.waits.listener = Listener(ValueError("no"))
    tested.commit_async("before", 1)
    kicks = tested.waits.kicks

    with pytest.raises(ValueError, match="no"):
        tested.run(tested.calls.finish(tested.calls.close_timeout(None)))

    assert tested.notified == [("before", None)]
    assert tested.committed() == 3
    assert tested.waits.kicks == kicks + 1, "close() wakes the request engine even after the listener's error"


def test_close_of_consumer_does_not_wait_for_unreachable_brokers():
    tested = ConsumerUnderTest(ConsumerStage(), enable_auto_commit=True)
    tested.stage.loop.stop(ONE)
    began_at_ms = tested.waits.now_ms()

    tested.run(tested.calls.finish(tested.calls.close_timeout(None)))

    assert tested.waits.now_ms() - began_at_ms <= 2100
