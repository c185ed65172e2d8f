from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from kohort.aio.group.group_calls import GroupCalls, group_config
from kohort.aio.group.session_state import Session, SessionState
from kohort.client.partition_claims import ClaimState
from kohort.errors import HandlerFailed, UsageError
from support.machines.consumer_stage import SERVERS, ConsumerStage, User, tp
from support.machines.stage_waits import StageWaits


class WorkersAtOnce:
    def __init__(self, state: SessionState) -> None:
        self.state = state
        self.session = Session(state)
        for claim in state.claims.by_partition.values():
            state.wake_by(claim, lambda: None)

    def start(self, handler: RecordingHandler) -> None:
        handler.events.append("start")
        for claim in self.state.claims.by_partition.values():
            self.state.wake_by(claim, partial(self._take, handler, claim))

    def _take(self, handler: RecordingHandler, claim: ClaimState) -> None:
        while claim.inbox:
            for record in claim.inbox.popleft().decode_records(check_crcs=True):
                try:
                    handler.handle(record, self.session)
                except ValueError as error:
                    self.state.fail(claim, error)
                    self.state.end()
                    return

    def join(self, patience_ms: int) -> None:
        assert patience_ms > 0
        assert self.state.ending

    def is_current(self) -> bool:
        return False


class RecordingHandler:
    def __init__(self, then: Callable[[bytes], None] = lambda _: None) -> None:
        self.events: list[str] = []
        self.then = then

    def setup(self, session: Session) -> None:
        self.events.append(f"setup {' '.join(map(str, session.partitions))}")

    def handle(self, record: Any, session: Session) -> None:
        self.events.append(record.value.decode())
        self.then(record.value)
        session.mark_message(record)

    def cleanup(self, session: Session) -> None:
        assert session.ending
        self.events.append("cleanup")


class Group:
    def __init__(self, stage: ConsumerStage) -> None:
        stage.topic("t", 1)
        stage.produce("t", 0, b"a", b"b", b"c")
        self.user: User = stage.user(group_id="g", enable_auto_commit=False)
        self.waits = StageWaits(self.user)
        config = group_config({"bootstrap_servers": SERVERS, "group_id": "g"}, {}, 100)
        self.calls = GroupCalls(self.waits, config, 100, nullcontext, WorkersAtOnce)

    def consume(self, handler: RecordingHandler) -> None:
        self.waits.run_anywhere(self.calls.consume("t", handler))

    def committed(self) -> int | None:
        promise = self.user.machine.committed([tp("t-0")], self.waits.now_ms() + 10_000)
        self.user.stage.loop.run_until(lambda: promise.done)
        found = promise.result()[tp("t-0")]
        return None if found is None else int(found.offset)


def test_group_session_runs_setup_handlers_cleanup_and_commit():
    group = Group(ConsumerStage())
    board = RecordingHandler(lambda value: group.calls.stop() if value == b"c" else None)

    group.consume(board)

    assert board.events == ["setup t-0", "start", "a", "b", "c", "cleanup"]
    assert group.committed() == 3
    assert group.waits.listener is None


def test_handler_error_ends_group_session_and_commits_marked_offsets():
    group = Group(ConsumerStage())

    def dislike(value: bytes) -> None:
        if value == b"b":
            raise ValueError("I do not like b")

    board = RecordingHandler(dislike)
    with pytest.raises(HandlerFailed, match="I do not like b"):
        group.consume(board)

    assert board.events == ["setup t-0", "start", "a", "b", "cleanup"]
    assert group.committed() == 1


def test_error_in_setup_of_group_session_is_raised_after_cleanup():
    group = Group(ConsumerStage())

    class FailingSetup(RecordingHandler):
        def setup(self, session: Session) -> None:
            super().setup(session)
            raise ValueError("not today")

    board = FailingSetup()
    with pytest.raises(ValueError, match="not today"):
        group.consume(board)
    assert board.events == ["setup t-0", "cleanup"]


def test_marked_offsets_are_committed_before_partitions_are_revoked():
    stage = ConsumerStage()
    group = Group(stage)
    others: list[User] = []

    def let_another_join(value: bytes) -> None:
        if value == b"c":
            others.append(stage.user("t", group_id="g"))

    board = RecordingHandler(let_another_join)
    group.consume(board)

    assert board.events == ["setup t-0", "start", "a", "b", "c", "cleanup"]
    assert group.committed() == 3


def test_close_of_consumer_group_inside_a_handler_raises_usage_error():
    group = Group(ConsumerStage())
    with pytest.raises(UsageError, match="call stop\\(\\) in handlers"):
        group.calls.begin_close(None, is_runner=True)
    assert not group.calls.stopping

    group.calls.begin_close(500, is_runner=False)
    assert group.calls.stopping


def test_close_of_consumer_group_leaves_the_group():
    stage = ConsumerStage()
    group = Group(stage)
    group.consume(RecordingHandler(lambda value: group.calls.stop() if value == b"c" else None))

    group.waits.run_anywhere(group.calls.finish(group.calls.begin_close(None, is_runner=False)))

    other = stage.user("t", group_id="g")
    stage.until(lambda: other.owned == "t-0", limit_ms=5000)
