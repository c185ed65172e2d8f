"""Classic groups by frames: joins, restarts, journal."""

import json

import pytest

from kohort.errors import ErrorCode, StorageError
from kohort.model import TopicPartition
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.group_classic import HeartbeatRequest
from kohort.wire.messages.group_consumer import ConsumerGroupDescribeRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.wire.messages.topics import DeleteTopicsRequest
from kohort.wire.record_batch import read_batch, split_batches
from support.machines.broker_stage import BrokerStage
from support.raw.group_member import RawMember, committed


def two_members(stage: BrokerStage) -> tuple[RawMember, RawMember]:
    ann, ben = (RawMember(stage.connect(), "g", ["a"]) for _ in range(2))
    ann.wire.create("a", 2)
    ann.start_join()
    stage.advance(0)  # end the initial rebalance delay
    ann.end_join()
    ann.sync({ann.member_id: {"a": [0, 1]}})
    ben.start_join()
    assert ann.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    ann.join()
    ben.end_join()
    ben.wire.send(ben.sync_request(), 5)
    ann.sync({ann.member_id: {"a": [0]}, ben.member_id: {"a": [1]}})
    assert ben.wire.take().error_code == 0
    return ann, ben


def test_classic_group_rebalances_and_each_member_gets_its_assignment(stage):
    ann, ben = two_members(stage)

    assert (ann.generation, ben.generation, ann.leader, ben.leader) == (2, 2, True, False)
    assert ann.assigned() == [TopicPartition("a", 0)]
    assert ben.assigned() == [TopicPartition("a", 1)]
    assert set(ann.members) == {ann.member_id, ben.member_id}


def test_waiting_join_group_delays_only_its_connection(stage):
    ann, _ = two_members(stage)
    cal = RawMember(stage.connect(), "g", ["a"])
    cal.start_join()
    cal.wire.send(HeartbeatRequest(group_id="g", member_id=cal.member_id, generation_id=0), 4)
    assert cal.wire.take() is None

    assert ann.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_offsets_are_committed_and_fetched(stage):
    ann, ben = two_members(stage)

    assert (ann.commit("a", 0, 17), ben.commit("a", 1, 4)) == (0, 0)

    assert committed(ann.wire, "g", "a", [0, 1]) == {0: 17, 1: 4}
    assert committed(ann.wire, "other", "a", [0]) == {0: -1}


def test_commit_of_a_previous_generation_is_rejected(stage):
    ann, _ = two_members(stage)

    assert ann.commit("a", 0, 17, generation=1) == ErrorCode.ILLEGAL_GENERATION
    assert committed(ann.wire, "g", "a", [0]) == {0: -1}


@pytest.mark.parametrize("cleanly", [True, False])
def test_group_survives_a_restart(stage, cleanly):
    ann, ben = two_members(stage)
    ann.commit("a", 0, 17)

    stage.restart(cleanly=cleanly)
    ann.wire, ben.wire = stage.connect(), stage.connect()

    assert (ann.heartbeat(), ben.heartbeat()) == (0, 0)
    assert ann.assigned() == [TopicPartition("a", 0)]
    assert committed(ann.wire, "g", "a", [0, 1]) == {0: 17, 1: -1}
    assert ann.commit("a", 0, 18) == 0


def test_silent_member_expires_and_the_group_rebalances(stage):
    ann, ben = two_members(stage)
    for _ in range(4):
        stage.advance(2_600)
        ann.heartbeat()

    assert ann.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    ann.join()
    assert set(ann.members) == {ann.member_id}
    assert ben.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_member_survives_a_lost_connection(stage):
    ann, ben = two_members(stage)

    ben.wire.leave()
    stage.advance(5_000)
    ben.wire = stage.connect()

    assert (ann.heartbeat(), ben.heartbeat()) == (0, 0)


def test_groups_are_listed_described_and_deleted(stage):
    ann, ben = two_members(stage)
    peer = stage.connect()

    (listed,) = peer.ask(ListGroupsRequest(), 5).groups
    (described,) = peer.ask(DescribeGroupsRequest(groups=["g"]), 6).groups
    refused = peer.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code
    ann.leave()
    ben.leave()
    deleted = peer.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code

    assert (listed.group_id, listed.group_state, listed.group_type) == ("g", "Stable", "classic")
    assert {(m.member_id, m.client_id, m.client_host) for m in described.members} == {
        (ann.member_id, "tester", "/127.0.0.1"),
        (ben.member_id, "tester", "/127.0.0.1"),
    }
    assert (refused, deleted) == (ErrorCode.NON_EMPTY_GROUP, 0)
    assert peer.ask(ListGroupsRequest(), 5).groups == []


def test_offsets_of_a_deleted_topic_are_removed(stage):
    ann, _ = two_members(stage)
    ann.commit("a", 0, 17)

    stage.connect().ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1), 5)

    assert committed(ann.wire, "g", "a", [0]) == {0: -1}


def test_read_requests_do_not_create_the_offsets_topic(stage):
    wire = stage.connect()

    wire.ask(ListGroupsRequest(), 5)
    wire.ask(DescribeGroupsRequest(groups=["g"]), 6)
    wire.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1)
    wire.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 8)
    assert stage.broker.state.topics.get("__consumer_offsets") is None

    wire.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert stage.broker.state.topics.get("__consumer_offsets") is not None


def test_group_response_is_not_sent_before_its_records_are_appended(stage, monkeypatch):
    ann, _ = two_members(stage)
    (offsets_topic,) = [t for t in stage.broker.state.topics if t.name == "__consumer_offsets"]

    def refuse(*_args, **_options):
        raise StorageError("the disk is full")

    for log in offsets_topic.partitions:
        monkeypatch.setattr(log, "append", refuse)
    code = ann.commit("a", 0, 99)
    monkeypatch.undo()

    assert code != 0
    assert committed(ann.wire, "g", "a", [0]) == {0: -1}


def test_offsets_partition_of_a_group_does_not_depend_on_a_changed_option(stage):
    ann, _ = two_members(stage)
    ann.commit("a", 0, 17)
    stage.config = BrokerStage(offsets_topic_num_partitions=7).config

    stage.restart()

    assert committed(stage.connect(), "g", "a", [0]) == {0: 17}


def test_unknown_coordinator_types_are_rejected(peer):
    share = peer.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=["g:t:0"]), 6).coordinators[0]

    assert share.error_code == ErrorCode.INVALID_REQUEST


def test_each_version_of_find_coordinator_is_answered(peer):
    for version in range(4):
        answer = peer.ask(FindCoordinatorRequest(key="g"), version)
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "127.0.0.1", 9092)
    for version in range(4, 7):
        (only,) = peer.ask(FindCoordinatorRequest(coordinator_keys=["g"]), version).coordinators
        assert (only.key, only.node_id) == ("g", 1)


# ---------------------------------------------------------------- the journal


def journal(stage: BrokerStage) -> list[dict]:
    answer = stage.connect().fetch("__kohort_journal")
    data = b"".join(bytes(p.records) for t in answer.responses for p in t.partitions)
    return [json.loads(r.value) for at, _ in split_batches(data) for r in read_batch(data, at)]


def test_journal_has_the_events_of_the_group_in_order(stage):
    two_members(stage)

    kinds = [entry["kind"] for entry in journal(stage)]

    assert kinds.count("round_opened") == 2
    assert kinds.count("assignment_written") == 2
    assert kinds.index("round_opened") < kinds.index("round_closed") < kinds.index("assignment_written")
    assert {entry["group"] for entry in journal(stage)} == {"g"}


def test_fetch_that_waits_for_the_journal_is_woken_by_an_entry(stage):
    ann, _ = two_members(stage)
    reader = stage.connect()
    end = reader.fetch("__kohort_journal").responses[0].partitions[0].high_watermark
    assert reader.fetch("__kohort_journal", end, max_wait_ms=5000) is None

    ann.leave()

    assert reader.take().responses[0].partitions[0].high_watermark > end


def test_metadata_request_for_the_journal_creates_the_internal_topic(stage):
    peer = stage.connect()
    topic = peer.ask(MetadataRequest(topics=[MetadataRequestTopic(name="__kohort_journal")]), 12).topics[0]

    assert (topic.is_internal, len(topic.partitions)) == (True, 1)


def test_expired_member_is_in_the_journal_after_a_restart(stage):
    ann, ben = two_members(stage)
    for _ in range(4):
        stage.advance(2_600)
        ann.heartbeat()
    stage.restart(cleanly=False)

    removed = [entry for entry in journal(stage) if entry["kind"] == "member_removed"]

    assert [(entry["member"]["member_id"], entry["why"]) for entry in removed] == [(ben.member_id, "session_expired")]


def test_failed_journal_write_does_not_delay_a_group(stage, monkeypatch):
    ann, _ = two_members(stage)
    (topic,) = [t for t in stage.broker.state.topics if t.name == "__kohort_journal"]

    def refuse(*_args, **_options):
        raise StorageError("the disk is full")

    monkeypatch.setattr(topic.partitions[0], "append", refuse)
    assert ann.leave() == 0

    assert any("journal entries are lost: the disk is full" in note for note in stage.log_lines())


def test_response_that_cannot_be_encoded_closes_only_its_connection(stage):
    ann, ben = two_members(stage)
    peer = stage.connect()
    request = ann.join_request()
    request.member_id = ""

    peer.send(request, 5, client_id="c" * 32_767)  # the member id would exceed the longest string

    assert "the response cannot be encoded" in peer.closed
    assert (ann.heartbeat(), ben.heartbeat()) == (0, 0)
