"""Requests that commit, fetch or delete offsets of consumer groups, and expiry of these offsets."""

import pytest

from kohort.coordinator.consumer.fencing import group_tombstones
from kohort.coordinator.journal import GroupDeleted, RequestFenced
from kohort.coordinator.offsets.delete import decide_expiry_in_consumer
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.offsets.state import NO_OFFSETS
from kohort.coordinator.outcome import CancelTimer, TimerKey
from kohort.coordinator.records import EpochWritten, OffsetCommitted
from kohort.coordinator.replay import replay
from kohort.errors import ErrorCode
from kohort.wire.messages.group_records import OffsetCommitValue
from kohort.wire.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from kohort.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.machines.coordinator_stage import GROUP, CoordinatorStage
from support.machines.written_groups import T, epochs, member, resolved, write

T0, T1, T2, T3, U0 = ("t", 0), ("t", 1), ("t", 2), ("t", 3), ("u", 0)
NONE, STALE, STRANGER = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID
OLD = ErrorCode.ILLEGAL_GENERATION
DAY_MS = 24 * 3_600_000


@pytest.fixture
def group(stage) -> CoordinatorStage:
    write(stage, epochs(6), member("m", 5, {T: {0: 2, 1: 4}}, pending={T: {2: 3}}, previous_epoch=4))
    return stage


def fetch(stage, member_id, epoch, group=GROUP):
    request_group = OffsetFetchRequestGroup(group_id=group, member_id=member_id, member_epoch=epoch, topics=None)
    (answer,) = stage.answer(stage.ask(OffsetFetchRequest(groups=[request_group]), 9)).groups
    return answer.error_code


def commit_in_transaction(stage, *places, version=6, **who):
    topics = [
        TxnOffsetCommitRequestTopic(
            name=topic,
            topic_id=stage.topics.topic_id(topic) or bytes(16),
            partitions=[TxnOffsetCommitRequestPartition(partition_index=p, committed_offset=7, committed_metadata="")],
        )
        for topic, p in places
    ]
    message = TxnOffsetCommitRequest(
        transactional_id="x", group_id=GROUP, producer_id=7, producer_epoch=0, topics=topics, **who
    )
    answer = stage.answer(stage.ask(message, version))
    return [p.error_code for topic in answer.topics for p in topic.partitions]


class TestCommitChecks:
    @pytest.mark.parametrize(
        ("who", "code"),
        [
            ({"member_id": "m", "generation": 5}, NONE),
            ({"member_id": "m", "generation": 5, "version": 10}, NONE),
            ({"member_id": "m", "generation": 5, "instance_id": "any"}, NONE),
            ({"member_id": "m", "generation": 6}, STALE),
            ({"member_id": "m", "generation": -1}, STALE),
            ({"member_id": "stranger", "generation": 5}, STRANGER),
            ({"member_id": "", "generation": -1}, STRANGER),
            ({"member_id": "m", "generation": 5, "version": 8}, ErrorCode.UNSUPPORTED_VERSION),
            ({"member_id": "stranger", "generation": 5, "version": 8}, STRANGER),
        ],
    )
    def test_offset_commit_to_a_nonempty_consumer_group_checks_member_id_and_epoch(self, group, who, code):
        assert group.commit({T0: 1}, **({"version": 9} | who)) == [code]

    def test_offset_commit_with_the_current_member_epoch_may_contain_any_partition(self, group):
        assert group.commit({T3: 1, U0: 1}, member_id="m", generation=5, version=9) == [NONE, NONE]

    @pytest.mark.parametrize(
        ("epoch", "places", "code"),
        [
            (4, [T0, T1, T2], NONE),
            (3, [T0, T2], NONE),
            (3, [T0, T1, T2], STALE),
            (2, [T0], NONE),
            (1, [T0], STALE),
            (4, [T0, T3], STALE),
            (4, [T0, U0], STALE),
        ],
    )
    def test_offset_commit_with_an_earlier_epoch_is_accepted_or_refused_as_a_whole(self, group, epoch, places, code):
        codes = group.commit(dict.fromkeys(places, 1), member_id="m", generation=epoch, version=9)

        assert codes == [code] * len(places)

    def test_offset_commit_with_an_earlier_epoch_ignores_unknown_partitions(self, group):
        long = "x" * 5_000

        assert group.commit({T0: 1, ("t", 9): 1}, member_id="m", generation=4, version=9) == [
            NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert group.commit({T3: 1}, member_id="m", generation=4, version=9, metadata=long) == [
            ErrorCode.OFFSET_METADATA_TOO_LARGE
        ]

    def test_offset_commit_of_a_classic_member_with_an_old_epoch_returns_illegal_generation(self, stage):
        write(stage, epochs(5), member("old", 5, {T: {0: 5}}, classic=True), member("m", 5))

        assert stage.commit({T0: 1}, member_id="old", generation=5, version=8) == [NONE]
        assert stage.commit({T0: 1}, member_id="old", generation=4, version=9) == [OLD]
        assert fetch(stage, "old", 4) == OLD

    def test_empty_consumer_group_accepts_offset_commits_of_non_members(self, stage):
        write(stage, epochs(5))

        assert stage.commit({T0: 1}) == [NONE]
        assert stage.commit({T0: 2}, member_id="gone", generation=-1) == [NONE]
        assert stage.commit({T0: 3}, member_id="gone", generation=5, version=9) == [STRANGER]

    def test_offset_commits_with_a_stale_epoch_are_journaled_once(self, group):
        for _ in range(3):
            group.commit({T3: 1}, member_id="m", generation=4, version=9)

        (entry,) = group.entries(RequestFenced)
        assert (entry.api, entry.error, entry.generation, entry.current) == ("OffsetCommit", "STALE_MEMBER_EPOCH", 4, 5)


class TestCommitsInTransactions:
    @pytest.mark.parametrize(
        ("version", "who", "code"),
        [
            (6, {"member_id": "m", "generation_id": 5}, NONE),
            (5, {"member_id": "m", "generation_id": 5}, NONE),
            (6, {"member_id": "m", "generation_id": 3}, STALE),
            (5, {"member_id": "m", "generation_id": 3}, OLD),
            (6, {"member_id": "stranger", "generation_id": 5}, STRANGER),
            (6, {}, NONE),
            (6, {"generation_id": -2}, STRANGER),  # epoch -2 marks an absent static member
        ],
    )
    def test_txn_offset_commit_to_a_consumer_group_checks_member_id_and_epoch(self, group, version, who, code):
        assert commit_in_transaction(group, T0, T1, version=version, **who) == [code, code]


class TestFetchChecks:
    @pytest.mark.parametrize(
        ("member_id", "epoch", "code"),
        [
            (None, -1, NONE),
            ("m", 5, NONE),
            ("m", 4, STALE),
            ("m", -1, STALE),
            ("", -1, STRANGER),
            (None, 5, STRANGER),
            ("stranger", 5, STRANGER),
        ],
    )
    def test_offset_fetch_from_a_nonempty_consumer_group_checks_member_id_and_epoch(
        self, group, member_id, epoch, code
    ):
        assert fetch(group, member_id, epoch) == code

    def test_offset_fetch_from_unknown_group_checks_no_member_id(self, group):
        assert fetch(group, "m", 99, group="nobody") == NONE


def deleted(stage, *places):
    topics = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=p)])
        for name, p in places
    ]
    answer = stage.answer(stage.ask(OffsetDeleteRequest(group_id=GROUP, topics=topics), 0))
    return answer.error_code, [p.error_code for topic in answer.topics for p in topic.partitions]


@pytest.mark.parametrize("subscription", [{"names": ["t"]}, {"names": [], "regex": "[st]"}])
class TestSubscribedTopics:
    def test_offset_delete_request_for_topics_that_a_consumer_group_subscribes_to_is_refused(self, stage, subscription):
        write(stage, epochs(5), member("m", 5, **subscription), resolved({"[st]": ["t"]}))
        stage.commit({T0: 1, U0: 1}, member_id="m", generation=5, version=9)

        assert deleted(stage, T0, U0) == (NONE, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE])

    def test_offsets_of_topics_that_a_consumer_group_subscribes_to_do_not_expire(self, subscription):
        groups = replayed(
            *epochs(5), *member("m", 5, **subscription), *resolved({"[st]": ["t"]}), offset(T0, 0), offset(U0, DAY_MS)
        )

        assert expired(groups, at_ms=8 * DAY_MS - 1) == []
        assert expired(groups, at_ms=8 * DAY_MS) == [OffsetCommitted(GROUP, "u", 0, None)]


class TestEmptyGroup:
    def test_empty_consumer_group_expires_with_its_last_offset(self):
        groups = replayed(*epochs(5), offset(T0, 0), offset(U0, DAY_MS))

        assert expired(groups, at_ms=7 * DAY_MS) == [OffsetCommitted(GROUP, "t", 0, None)]
        assert expired(groups, at_ms=8 * DAY_MS) == [
            OffsetCommitted(GROUP, "t", 0, None),
            OffsetCommitted(GROUP, "u", 0, None),
            *group_tombstones(groups.consumer[GROUP]),
        ]

    def test_empty_consumer_group_without_offsets_expires_and_is_journaled(self):
        stage = CoordinatorStage()
        write(stage, epochs(5))

        stage.advance(stage.config.offsets_retention_check_interval_ms)

        assert stage.records()[-1] == EpochWritten(GROUP, None)
        assert [entry.why for entry in stage.entries(GroupDeleted)] == ["expired"]

    def test_expiry_of_a_consumer_group_cancels_its_search_for_topics_of_its_patterns(self):
        groups = replayed(*epochs(5), offset(T0, 0))

        assert expiry(groups, at_ms=7 * DAY_MS - 1).timers == []
        assert expiry(groups, at_ms=7 * DAY_MS).timers == [CancelTimer(TimerKey("regex", GROUP))]

    def test_consumer_group_with_pending_transactional_offsets_does_not_expire(self):
        groups = replayed(*epochs(5))
        replay(groups, offset(T0, 0), 0, producer_id=7)

        assert expired(groups, at_ms=30 * DAY_MS) == []


def replayed(*records):
    groups = Groups()
    for record in records:
        replay(groups, record, 0)
    return groups


def offset(place, at_ms):
    return OffsetCommitted(GROUP, *place, OffsetCommitValue(offset=1, commit_timestamp=at_ms))  # type: ignore[call-arg]


def expired(groups, at_ms):
    return expiry(groups, at_ms).records


def expiry(groups, at_ms):
    ctx = CoordinatorStage().coordinator._at(at_ms)
    return decide_expiry_in_consumer(groups.consumer[GROUP], groups.offsets.get(GROUP, NO_OFFSETS), ctx)


def test_deletion_of_a_topic_removes_its_offsets_despite_subscribers(group):
    group.commit({T0: 1, U0: 1}, member_id="m", generation=5, version=9)
    group.topics.delete("t")

    group.coordinator.topics_deleted(["t"], group.now)

    assert group.records()[-1] == OffsetCommitted(GROUP, "t", 0, None)
    assert [place for *place, _ in group.coordinator.committed(GROUP)] == [["u", 0]]
