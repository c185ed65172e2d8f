"""A consumer group member with any events: consistent callbacks, and a stable end.

Targets, errors, lost responses and slow users come in any order; then all faults end.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.client.group.member_states import IN_GROUP
from kohort.client.group.membership import CallbackNeeded
from kohort.errors import ApiError, CommitFailed, ErrorCode
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.wire.messages.offsets import OffsetCommitRequest
from kohort_lab.machines.scripted import HANG_UP, SILENCE
from support.machines.consumer_stage import names
from support.machines.scripted_coordinator import INTERVAL_MS, Heartbeat, ScriptedCoordinator, owned_of

TARGETS = ("", "t-0", "t-0 t-1", "t-1 u-0", "t-2", "t-0 t-1 t-2 t-3 u-0 u-1")
REFUSALS = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    HANG_UP,
    SILENCE,
)
EVENTS = st.one_of(
    st.tuples(st.just("is_assigned"), st.sampled_from(TARGETS)),
    st.tuples(st.just("is_moved"), st.sampled_from(TARGETS)),
    st.tuples(st.just("is_refused"), st.sampled_from(REFUSALS)),
    st.tuples(st.just("is_rejected_in_callback"), st.sampled_from(REFUSALS)),
    st.tuples(st.just("has_its_commit_refused"), st.sampled_from((ErrorCode.STALE_MEMBER_EPOCH, HANG_UP))),
    st.tuples(st.just("polls"), st.sampled_from((50, 1000, INTERVAL_MS))),
    st.tuples(st.just("is_away"), st.sampled_from((3000, 9000, 20_000))),
    st.tuples(st.just("listens_for"), st.sampled_from((0, 6000, 12_000))),
    st.tuples(st.just("cannot_find"), st.sampled_from(({"u"}, set()))),
    st.tuples(st.just("subscribes"), st.sampled_from(("t", "t u"))),
    st.tuples(st.just("commits"), st.none()),
)
STEP_MS = 200
NEEDS = "t u"


class MemberRun:
    """One member, its user, and the user's callbacks."""

    def __init__(self) -> None:
        self.stage = ScriptedCoordinator()
        self.stage.hidden = set()
        self.takes_ms = 0
        self.rejected_in_callback: object = None
        self.mine: set[TopicPartition] = set()
        self.user = self.stage.member(
            NEEDS.split(), max_poll_interval_ms=10_000, request_timeout_ms=3000, auto_commit_interval_ms=1000
        )
        self.user.on_callback = self.hears
        self.checked = 0

    def hears(self, callback: CallbackNeeded) -> None:
        partitions = set(callback.partitions)
        assert (self.user.membership.state in IN_GROUP) == (callback.kind != "lost")
        if callback.kind == "assigned":
            assert not partitions & self.mine, "what stays is not assigned anew"
            self.mine |= partitions
        else:
            assert partitions
            assert partitions <= self.mine, "only what the user has is taken"
            self.mine -= partitions
        if self.rejected_in_callback is not None:
            self.stage.then(Heartbeat, self.rejected_in_callback)
            self.rejected_in_callback = None
            self.stage.loop.run(INTERVAL_MS)
        if self.takes_ms:  # as in the faces: a listener that hangs must not keep the member alive
            self.user.machine.leave_poll(self.stage.now_ms)
            self.stage.loop.run(self.takes_ms)
            self.user.machine.resume_poll(self.stage.now_ms)

    def happens(self, what: str, how: Any) -> None:
        getattr(self, what)(how)
        self.check()

    def is_assigned(self, target: str) -> None:
        self.stage.assign(target)
        self.stage.epoch += 1

    def is_moved(self, target: str) -> None:
        self.is_assigned(target)
        self.polls(INTERVAL_MS)

    def is_refused(self, how: object) -> None:
        self.stage.then(Heartbeat, how)

    def is_rejected_in_callback(self, how: object) -> None:
        self.rejected_in_callback = how

    def has_its_commit_refused(self, how: object) -> None:
        self.stage.then(OffsetCommitRequest, how)

    def listens_for(self, takes_ms: int) -> None:
        self.takes_ms = takes_ms

    def is_away(self, for_ms: int) -> None:
        self.stage.loop.run(for_ms)

    def cannot_find(self, topics: set[str]) -> None:
        self.stage.hidden = topics

    def subscribes(self, topics: str) -> None:
        self.user.machine.subscribe(topics.split())

    def polls(self, for_ms: int) -> None:
        end_ms = self.stage.now_ms + for_ms
        while self.stage.now_ms < end_ms:
            with suppress(ApiError):
                self.user.poll()
            self.stage.loop.run(STEP_MS)

    def commits(self, _how: None) -> None:
        offsets = {partition: OffsetAndMetadata(1) for partition in self.mine}
        promise = self.user.machine.commit(offsets, self.stage.now_ms + 2000)
        self.stage.loop.run_until(lambda: promise.done, 5000)
        assert promise.error is None or promise.error.retriable or isinstance(promise.error, ApiError | CommitFailed)

    def check(self) -> None:
        """Check that assignment, callbacks and heartbeats agree."""
        assert set(self.user.machine.subscription.assigned) == self.mine
        for request in self.stage.beats[self.checked :]:
            owned = owned_of(request)
            if owned is not None and request.member_epoch == 0:
                assert owned == "", "who joins has nothing"
        self.checked = len(self.stage.beats)


@settings(max_examples=60)
@given(st.lists(EVENTS, max_size=12), st.sampled_from(TARGETS))
def test_callbacks_are_consistent_and_target_assignment_is_reached(events, target):
    story = MemberRun()
    for what, how in events:
        story.happens(what, how)

    story.takes_ms, story.rejected_in_callback = 0, None
    story.stage.next_codes.clear()
    story.stage.hidden = set()
    story.user.machine.subscribe(NEEDS.split())
    story.stage.assign(target)
    story.happens("polls", 15_000)

    assigned_names = names(story.stage.target)
    assert story.user.owned == assigned_names == names(story.mine)
    assert story.user.membership.is_stable
    reported = [owned_of(r) for r in story.stage.beats if r.topic_partitions is not None]
    assert reported[-1] == assigned_names, "and said so last"
