"""A consumer group member against a scripted coordinator: requests and reactions to errors."""

from __future__ import annotations

import re

import pytest

from kohort.client.group.member_states import ConsumerMemberState
from kohort.errors import (
    ApiError,
    CommitFailed,
    ConnectionFailed,
    ErrorCode,
    KohortError,
    UnsupportedVersion,
    UsageError,
)
from kohort.model import GroupMetadata, OffsetAndMetadata, SubscriptionPattern
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from kohort_lab.machines.scripted import HANG_UP, SILENCE
from support.machines.consumer_stage import tp
from support.machines.scripted_coordinator import INTERVAL_MS, Heartbeat, ScriptedCoordinator, id_of, owned_of

E = ErrorCode
S = ConsumerMemberState


@pytest.fixture
def stage() -> ScriptedCoordinator:
    return ScriptedCoordinator()


def epochs(stage: ScriptedCoordinator) -> list[int]:
    return [request.member_epoch for request in stage.beats]


# Heartbeat fields


def test_first_heartbeat_has_all_fields(stage: ScriptedCoordinator):
    user = stage.member("t", max_poll_interval_ms=7000, client_rack="r1", group_remote_assignor="range")

    stage.polls(200)

    first = stage.beats[0]
    assert (first.group_id, first.member_id, first.member_epoch) == ("g", user.membership.member_id, 0)
    assert (first.rebalance_timeout_ms, first.rack_id, first.server_assignor) == (7000, "r1", "range")
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (["t"], None)
    assert first.topic_partitions == []


def test_heartbeat_acknowledges_assignment_at_once_without_unchanged_fields(stage: ScriptedCoordinator):
    user = stage.joined()

    ack = stage.beats[1]
    assert (ack.member_epoch, owned_of(ack)) == (1, "t-0")
    assert (ack.rebalance_timeout_ms, ack.subscribed_topic_names, ack.rack_id) == (-1, None, None)
    stage.polls(INTERVAL_MS)
    regular = stage.beats[2]
    assert (regular.member_epoch, regular.topic_partitions, regular.subscribed_topic_names) == (1, None, None)
    assert user.callbacks == [("assigned", "t-0")]


def test_heartbeats_use_interval_of_coordinator(stage: ScriptedCoordinator):
    stage.joined()
    before = len(stage.beats)

    stage.polls(4 * INTERVAL_MS)

    assert len(stage.beats) == before + 4


def test_empty_assignment_is_acknowledged(stage: ScriptedCoordinator):
    stage.assign("")
    user = stage.joined()

    assert user.callbacks == [("assigned", "")]
    assert [owned_of(r) for r in stage.beats] == ["", ""]


def test_changed_subscription_is_sent_in_heartbeat_at_once(stage: ScriptedCoordinator):
    user = stage.joined()

    user.machine.subscribe(["t", "u"])
    stage.polls(200)

    assert stage.beats[-1].subscribed_topic_names == ["t", "u"]
    assert stage.beats[-1].rebalance_timeout_ms == -1


def test_heartbeat_after_lost_response_has_all_fields(stage: ScriptedCoordinator):
    stage.joined()
    stage.then(Heartbeat, HANG_UP)

    stage.polls(INTERVAL_MS + 2000)

    again = stage.beats[-1]
    assert (again.member_epoch, again.rebalance_timeout_ms, owned_of(again)) == (1, 300_000, "t-0")
    assert again.subscribed_topic_names == ["t"]
    assert len(stage.sent(FindCoordinatorRequest)) == 2


def test_pattern_that_client_evaluates_is_sent_as_matching_topic_names(stage: ScriptedCoordinator):
    user = stage.user(group_id="g", group_protocol="consumer")
    user.machine.subscribe(re.compile("t|u"))
    stage.polls(200)
    assert stage.beats[0].subscribed_topic_names == ["t", "u"]

    stage.topics.add("x")
    assert stage.beats[-1].subscribed_topic_regex is None


def test_subscription_pattern_is_sent_and_its_topics_are_found_by_id(stage: ScriptedCoordinator):
    stage.assign("u-1 u-2")
    user = stage.user(group_id="g", group_protocol="consumer")
    user.machine.subscribe(SubscriptionPattern("u.*"))

    stage.until(lambda: user.owned == "u-1 u-2")

    assert (stage.beats[0].subscribed_topic_names, stage.beats[0].subscribed_topic_regex) == ([], "u.*")
    request_topics = [t for r in stage.sent(MetadataRequest) for t in r.topics or []]
    assert {(t.name, t.topic_id) for t in request_topics} == {(None, id_of("u"))}
    assert user.callbacks == [("assigned", "u-1 u-2")]
    assert user.machine.subscription.topics == {"u"}


def test_unsubscribe_clears_pattern_in_heartbeat(stage: ScriptedCoordinator):
    stage.assign("")
    user = stage.user(group_id="g", group_protocol="consumer")
    user.machine.subscribe(SubscriptionPattern("u.*"))
    stage.until(lambda: user.membership.is_stable)

    user.machine.subscription.unsubscribe()
    user.machine.subscribe(["t"])
    stage.polls(200)

    assert (stage.beats[-1].subscribed_topic_names, stage.beats[-1].subscribed_topic_regex) == (["t"], "")


# Reconciliation


def test_partitions_are_revoked_before_assignment_and_then_acknowledged(stage: ScriptedCoordinator):
    stage.assign("t-0 t-1")
    user = stage.joined()
    stage.assign("t-1 t-2")
    stage.epoch = 2
    owned_in_callbacks: list[tuple[str, str]] = []
    user.on_callback = lambda callback: owned_in_callbacks.append((callback.kind, user.owned))

    stage.until(lambda: user.owned == "t-1 t-2" and user.membership.is_stable)

    assert user.callbacks[1:] == [("revoked", "t-0"), ("assigned", "t-2")]
    assert owned_in_callbacks == [("revoked", "t-0 t-1"), ("assigned", "t-1 t-2")], (
        "partitions are owned during on_partitions_revoked"
    )
    assert (stage.beats[-1].member_epoch, owned_of(stage.beats[-1])) == (2, "t-1 t-2")


def test_positions_of_revoked_partitions_are_auto_committed_before_revocation(stage: ScriptedCoordinator):
    user = stage.joined()
    stage.until(lambda: len(user.records) == 10)
    stage.assign("t-1")

    stage.until(lambda: user.owned == "t-1")

    assert (1, [("t", 0)]) in stage.commits()
    assert stage.committed == 10


def test_poll_returns_no_records_of_partitions_being_revoked(stage: ScriptedCoordinator):
    stage.assign("t-0 t-1")
    user = stage.joined()
    state = user.machine.subscription.assigned[tp("t-0")]
    stage.then(OffsetCommitRequest, SILENCE)
    stage.until(lambda: state.position is not None)
    stage.assign("t-1")

    stage.until(lambda: state.pending_revocation)

    assert not state.fetchable
    assert user.owned == "t-0 t-1", "partitions are owned while their commit is in flight"


def test_next_target_assignment_waits_until_current_one_is_reconciled(stage: ScriptedCoordinator):
    stage.assign("t-0 t-1")
    user = stage.joined()
    stage.assign("t-0")

    def during_callback(_callback: object) -> None:
        if len(user.callbacks) == 2:  # the callback revokes t-1
            stage.assign("t-2")
            stage.loop.run(2 * INTERVAL_MS)

    user.on_callback = during_callback
    stage.until(lambda: user.owned == "t-2" and user.membership.is_stable)

    assert user.callbacks[1:] == [("revoked", "t-1"), ("assigned", ""), ("revoked", "t-0"), ("assigned", "t-2")]
    assert [owned_of(r) for r in stage.beats if r.topic_partitions is not None][-2:] == ["t-0", "t-2"]


def test_repeated_target_assignment_is_acknowledged_without_callback(stage: ScriptedCoordinator):
    stage.hidden = {"u"}
    user = stage.member(["t", "u"])
    stage.until(lambda: user.membership.is_stable)
    stage.assign("t-0 u-0")

    stage.polls(2 * INTERVAL_MS)

    assert user.membership.state is S.RECONCILING, "u-0 waits for the topic name"
    assert user.callbacks == [("assigned", "t-0")]
    stage.hidden = set()
    stage.until(lambda: user.owned == "t-0 u-0")
    assert user.callbacks == [("assigned", "t-0"), ("assigned", "u-0")]


def test_assigned_topic_with_unknown_name_waits_while_other_topics_are_assigned(stage: ScriptedCoordinator):
    stage.hidden = {"u"}
    stage.assign("t-0 u-0")
    user = stage.member(["t", "u"])

    stage.until(lambda: user.owned == "t-0" and len(stage.beats) > 1)
    assert owned_of(stage.beats[1]) == "t-0"
    stage.hidden = set()
    stage.until(lambda: user.owned == "t-0 u-0" and user.membership.is_stable)

    assert owned_of(stage.beats[-1]) == "t-0 u-0"


# Lost membership


@pytest.mark.parametrize("code", [E.FENCED_MEMBER_EPOCH, E.UNKNOWN_MEMBER_ID, E.GROUP_ID_NOT_FOUND])
def test_fenced_member_loses_partitions_and_rejoins(stage: ScriptedCoordinator, code: ErrorCode):
    user = stage.joined()
    stage.then(Heartbeat, code)

    stage.until(lambda: epochs(stage).count(0) == 2 and user.owned == "t-0" and user.membership.is_stable)

    assert user.callbacks == [("assigned", "t-0"), ("lost", "t-0"), ("assigned", "t-0")]
    again = [r for r in stage.beats if r.member_epoch == 0][1]
    assert (again.member_id, again.topic_partitions, again.subscribed_topic_names) == (
        user.membership.member_id,
        [],
        ["t"],
    )
    (note,) = user.notes_besides_resets()
    assert note.text.startswith("the coordinator of group 'g' fenced member")
    assert code.name in note.text


def test_rejoined_member_owns_its_new_assignment(stage: ScriptedCoordinator):
    stage.assign("t-0 t-1")
    user = stage.joined()
    stage.then(Heartbeat, E.FENCED_MEMBER_EPOCH)
    stage.polls(INTERVAL_MS - 1000)
    stage.assign("t-2")

    stage.until(lambda: epochs(stage).count(0) == 2 and user.owned == "t-2" and user.membership.is_stable)

    assert user.callbacks == [("assigned", "t-0 t-1"), ("lost", "t-0 t-1"), ("assigned", "t-2")]


def test_partitions_with_running_callback_are_reported_as_owned(stage: ScriptedCoordinator):
    stage.assign("t-0 t-1")

    def during_callback(_callback: object) -> None:
        stage.then(Heartbeat, E.COORDINATOR_LOAD_IN_PROGRESS)  # after an error the heartbeat has all fields
        stage.loop.run(3 * INTERVAL_MS)

    user = stage.member("t")
    user.on_callback = during_callback
    stage.until(lambda: user.owned == "t-0 t-1" and user.membership.is_stable)

    again = [owned_of(r) for r in stage.beats[1:] if r.topic_partitions is not None]
    assert again
    assert set(again) == {"t-0 t-1"}


def test_fenced_member_rejoins_after_on_partitions_lost(stage: ScriptedCoordinator):
    user = stage.joined()
    stage.then(Heartbeat, E.FENCED_MEMBER_EPOCH)

    stage.loop.run(4 * INTERVAL_MS)

    assert user.membership.state is S.FENCED
    assert epochs(stage).count(0) == 1
    refused = user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, None)
    with pytest.raises(CommitFailed, match="no longer a member of group 'g'"):
        stage.settled(refused)
    assert user.machine.group_metadata().generation_id == 1, "transactional commits of the lost partitions must fail"


def test_reconciliation_ends_when_membership_is_lost(stage: ScriptedCoordinator):
    stage.assign("t-0 t-1")
    user = stage.joined()
    stage.assign("t-0 t-2")

    def fenced_meanwhile(_callback: object) -> None:
        if user.callbacks[-1][0] == "revoked":
            stage.then(Heartbeat, E.FENCED_MEMBER_EPOCH)
            stage.loop.run(2 * INTERVAL_MS)

    user.on_callback = fenced_meanwhile
    stage.until(lambda: epochs(stage).count(0) == 2 and user.owned == "t-0 t-2")

    assert user.callbacks[1:] == [("revoked", "t-1"), ("lost", "t-0"), ("assigned", "t-0 t-2")]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (E.UNRELEASED_INSTANCE_ID, "group.instance.id='i' is in use in group 'g': close the consumer that has it"),
        (E.FENCED_INSTANCE_ID, "another consumer of group 'g' uses group.instance.id='i'"),
        (E.UNSUPPORTED_ASSIGNOR, "group.remote.assignor='best' cannot be used in group 'g': it says so"),
        (E.GROUP_MAX_SIZE_REACHED, r"group 'g' is full \(group.consumer.max.size on the broker\): it says so"),
        (E.GROUP_ID_NOT_FOUND, "cannot be joined with group.protocol=consumer: it says so; set"),
        (E.UNSUPPORTED_VERSION, "the broker does not support group.protocol=consumer"),
        (E.INVALID_REGULAR_EXPRESSION, "cannot parse the subscription pattern of group 'g': it says so"),
        (E.GROUP_AUTHORIZATION_FAILED, "a heartbeat to group 'g': it says so"),
        (E.INVALID_REQUEST, "a heartbeat to group 'g': it says so"),
    ],
)
def test_permanent_heartbeat_error_is_raised_and_next_poll_retries(
    stage: ScriptedCoordinator, code: ErrorCode, text: str
):
    stage.then(Heartbeat, code)
    user = stage.member(group_instance_id="i", group_remote_assignor="best")
    user.poll()
    stage.loop.run(4 * INTERVAL_MS)
    assert user.membership.state is S.FATAL
    assert len(stage.beats) == 1, "no heartbeat follows a fatal error"
    assert not user.machine.group.rebalance.is_due, "no rebalance is due before the error is raised"

    with pytest.raises(ApiError, match=text) as caught:
        user.poll()

    assert caught.value.code is code
    assert user.machine.group.rebalance.is_due
    stage.until(lambda: user.owned == "t-0"), "and the next poll tries again"


def test_permanent_heartbeat_error_loses_all_partitions(stage: ScriptedCoordinator):
    user = stage.joined(group_instance_id="i")
    stage.then(Heartbeat, E.FENCED_INSTANCE_ID)
    stage.loop.run(INTERVAL_MS)

    with pytest.raises(ApiError, match="FENCED_INSTANCE_ID"):
        user.poll()

    stage.until(lambda: user.callbacks[-1] == ("assigned", "t-0") and len(user.callbacks) == 3)
    assert user.callbacks[1] == ("lost", "t-0")


def test_error_of_denied_topic_is_raised_once_and_heartbeats_continue(stage: ScriptedCoordinator):
    user = stage.joined()
    stage.then(Heartbeat, *[E.TOPIC_AUTHORIZATION_FAILED] * 3)
    stage.loop.run(3 * INTERVAL_MS)

    with pytest.raises(ApiError, match="TOPIC_AUTHORIZATION_FAILED: a heartbeat to group 'g'"):
        user.poll()

    assert not user.machine.failures
    assert user.owned == "t-0"
    stage.polls(2 * INTERVAL_MS)
    assert user.membership.is_stable


@pytest.mark.parametrize(
    ("answer", "lookups"),
    [(E.COORDINATOR_LOAD_IN_PROGRESS, 1), (E.NOT_COORDINATOR, 2), (E.COORDINATOR_NOT_AVAILABLE, 2), (HANG_UP, 2)],
)
def test_retriable_heartbeat_error_is_retried(stage: ScriptedCoordinator, answer: object, lookups: int):
    stage.then(Heartbeat, answer)

    stage.joined()

    assert epochs(stage)[:2] == [0, 0]
    assert len(stage.sent(FindCoordinatorRequest)) == lookups


def test_join_error_on_cluster_without_consumer_protocol_names_needed_version(stage: ScriptedCoordinator):
    del stage.one.ranges[Heartbeat.API_KEY]
    stage.member()

    with pytest.raises(UnsupportedVersion, match=r"group\.protocol=consumer needs Apache Kafka 4\.0 or later"):
        stage.polls(1000)


def test_subscription_pattern_on_old_cluster_is_rejected(stage: ScriptedCoordinator):
    stage.one.ranges[Heartbeat.API_KEY] = (0, 0)
    user = stage.user(group_id="g", group_protocol="consumer")
    user.machine.subscribe(SubscriptionPattern("u.*"))

    with pytest.raises(UnsupportedVersion, match="the cluster does not support SubscriptionPattern"):
        stage.polls(1000)


@pytest.mark.parametrize("error", [ConnectionFailed("it ended"), UnsupportedVersion("too old")])
def test_failed_heartbeat_after_leave_is_ignored(stage: ScriptedCoordinator, error: KohortError):
    user = stage.joined()
    member = user.membership
    (beat,) = member.poll(stage.now_ms + INTERVAL_MS).unsent
    promise = user.leave()
    assert not promise.done

    member.on_failure(beat, error, stage.now_ms)

    assert member.state is S.UNSUBSCRIBED
    assert not user.machine.failures
    (goodbye,) = member.poll(stage.now_ms).unsent
    assert goodbye.request.member_epoch == -1, "the last heartbeat goes to the known coordinator"


# Leave


def test_consumer_group_member_leaves_with_last_heartbeat(stage: ScriptedCoordinator):
    user = stage.joined()

    stage.settled(user.leave())

    (goodbye,) = stage.goodbyes
    assert (goodbye.member_id, goodbye.member_epoch) == (user.membership.member_id, -1)
    assert user.callbacks[-1] == ("revoked", "t-0")
    assert user.membership.state is S.UNSUBSCRIBED


def test_static_member_leaves_with_epoch_minus_two(stage: ScriptedCoordinator):
    user = stage.joined(group_instance_id="i")

    stage.settled(user.leave())

    assert [(r.member_epoch, r.instance_id) for r in stage.goodbyes] == [(-2, "i")]


def test_leave_of_deleted_group_completes_without_error(stage: ScriptedCoordinator):
    user = stage.joined()
    stage.then(Heartbeat, E.GROUP_ID_NOT_FOUND)

    stage.settled(user.leave())

    assert not user.machine.failures


def test_member_leaves_after_max_poll_interval_and_rejoins_at_next_poll(stage: ScriptedCoordinator):
    user = stage.joined(max_poll_interval_ms=8000)

    stage.loop.run(9000)

    assert user.membership.state is S.STALE
    assert [r.member_epoch for r in stage.goodbyes] == [-1]
    beats = len(stage.beats)
    stage.loop.run(20_000)
    assert len(stage.beats) == beats
    (note,) = user.notes_besides_resets()
    assert note.text == "the member left group 'g': more than max.poll.interval.ms (8000) between polls"
    stage.until(lambda: user.owned == "t-0" and user.membership.is_stable)
    assert user.callbacks == [("assigned", "t-0"), ("lost", "t-0"), ("assigned", "t-0")]


def test_resubscribed_member_rejoins_with_its_member_id(stage: ScriptedCoordinator):
    user = stage.joined()
    stage.settled(user.leave())

    user.alive = True
    user.machine.subscribe(["t"])
    stage.until(lambda: user.owned == "t-0")

    assert {r.member_id for r in stage.beats} == {user.membership.member_id}


# Offset commits and fetches


def test_offsets_are_committed_and_fetched_with_member_epoch(stage: ScriptedCoordinator):
    stage.epoch = 7
    user = stage.joined(enable_auto_commit="false")

    stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 5000))

    request = stage.sent(OffsetCommitRequest)[0]
    assert (request.member_id, request.generation_id_or_member_epoch) == (user.membership.member_id, 7)
    (group,) = (r.groups[0] for r in stage.sent(OffsetFetchRequest))
    assert (group.member_id, group.member_epoch) == (user.membership.member_id, 7)
    assert user.machine.group_metadata() == GroupMetadata("g", 7, user.membership.member_id)


def test_commit_with_stale_member_epoch_is_retried_before_deadline(stage: ScriptedCoordinator):
    user = stage.joined(enable_auto_commit="false")
    stage.then(OffsetCommitRequest, E.STALE_MEMBER_EPOCH)
    promise = user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 20_000)
    stage.epoch = 2
    stage.loop.run_until(lambda: promise.done)

    assert promise.error is None
    assert [epoch for epoch, _ in stage.commits()] == [1, 1], "the commit is retried with the member epoch of the retry"

    stage.then(OffsetCommitRequest, E.STALE_MEMBER_EPOCH)
    with pytest.raises(CommitFailed, match="sent under epoch"):
        stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(4)}, None))


def test_commit_of_earlier_membership_is_not_repeated(stage: ScriptedCoordinator):
    user = stage.joined(enable_auto_commit="false")
    stage.then(OffsetCommitRequest, *[E.STALE_MEMBER_EPOCH] * 1000)
    promise = user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 60_000)
    stage.loop.run(50)
    stage.then(Heartbeat, E.FENCED_MEMBER_EPOCH)
    stage.until(lambda: promise.done)

    assert isinstance(promise.error, CommitFailed)


def test_commit_of_unknown_member_id_fails(stage: ScriptedCoordinator):
    user = stage.joined(enable_auto_commit="false")
    stage.then(OffsetCommitRequest, E.UNKNOWN_MEMBER_ID)

    with pytest.raises(CommitFailed, match="the group has removed this member"):
        stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 5000))


@pytest.mark.parametrize("code", [E.STALE_MEMBER_EPOCH, E.UNKNOWN_MEMBER_ID])
def test_offset_fetch_of_assigned_partition_is_retried_while_member_is_unknown(
    stage: ScriptedCoordinator, code: ErrorCode
):
    stage.then(OffsetFetchRequest, code)
    user = stage.member()

    stage.until(lambda: len(user.records) == 10)

    assert len(stage.sent(OffsetFetchRequest)) == 2


def test_committed_call_of_unknown_member_raises_error(stage: ScriptedCoordinator):
    user = stage.joined()
    stage.then(OffsetFetchRequest, E.UNKNOWN_MEMBER_ID)

    with pytest.raises(ApiError, match="UNKNOWN_MEMBER_ID"):
        stage.settled(user.machine.committed([tp("t-0")], stage.now_ms + 5000))


def test_commit_before_join_is_rejected(stage: ScriptedCoordinator):
    stage.then(Heartbeat, SILENCE)
    user = stage.member()
    stage.polls(200)

    with pytest.raises(ApiError, match=r"poll\(\) until the group is joined"):
        stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 5000))


# Unsupported calls


def test_enforce_rebalance_of_consumer_group_is_rejected(stage: ScriptedCoordinator):
    user = stage.joined()

    with pytest.raises(UsageError, match="the coordinator decides when to rebalance"):
        user.machine.enforce_rebalance("")


@pytest.mark.parametrize("pattern", ["", 7, "\ud800"])
def test_subscription_pattern_must_be_text(stage: ScriptedCoordinator, pattern: object):
    user = stage.user(group_id="g", group_protocol="consumer")

    with pytest.raises(UsageError, match="the pattern must be text that is not empty"):
        user.machine.subscribe(SubscriptionPattern(pattern))


def test_subscription_pattern_with_classic_protocol_is_rejected(stage: ScriptedCoordinator):
    user = stage.user(group_id="g")

    with pytest.raises(UsageError, match=r"group.protocol=classic: subscribe with re.compile"):
        user.machine.subscribe(SubscriptionPattern("t.*"))
