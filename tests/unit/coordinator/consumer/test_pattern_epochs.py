"""Group epoch and topic hash of groups with subscription patterns."""

import pytest

from kohort.coordinator.consumer.subscribed_topics import hash_of_topics
from kohort.coordinator.journal import EpochRaised, TargetComputed
from kohort.coordinator.records import EpochWritten
from kohort.errors import StorageError
from support.machines.coordinator_stage import CoordinatorStage, Topics

NOT_WITHIN_MS = 10_000
REFRESH_MS = 600_000


def stage_of(**topics: int) -> CoordinatorStage:
    return CoordinatorStage(topics=Topics(**topics), group_consumer_assignment_interval_ms=0)


def come(stage: CoordinatorStage, member_id: str, regex: str, names: tuple[str, ...] = ()) -> None:
    stage.come(member_id, subscribed_topic_names=list(names), subscribed_topic_regex=regex)


def group(stage: CoordinatorStage):
    return stage.coordinator.groups_in_partition_of("g").consumer["g"]


def beat(stage: CoordinatorStage, member_id: str, **fields) -> None:
    member = group(stage).members[member_id]
    assert stage.beat(member_id, member.epoch, **fields).error_code == 0


def is_hash_of(stage: CoordinatorStage, *names: str) -> bool:
    written = [r.value for r in stage.records() if isinstance(r, EpochWritten) and r.value is not None]
    return written[-1].metadata_hash == hash_of_topics(names, stage.topics)


def events(stage: CoordinatorStage) -> list[str]:
    return [entry.cause.event for entry in stage.entries(EpochRaised)]


@pytest.fixture
def stage() -> CoordinatorStage:
    stage = stage_of(ta=1, tb=1, u=1)
    stage.come("m1", "u")
    return stage


def test_topic_hash_omits_matched_topics_after_the_last_member_with_the_pattern_left(stage):
    come(stage, "m2", "t.*")
    assert is_hash_of(stage, "ta", "tb", "u")

    stage.beat("m2", -1)
    assert is_hash_of(stage, "u")
    raised = events(stage)
    stage.topics.make("other", 1)
    beat(stage, "m1")

    assert events(stage) == raised


def test_topic_hash_keeps_matched_topics_while_another_member_has_the_pattern(stage):
    come(stage, "m2", "t.*")
    come(stage, "m3", "t.*")

    stage.beat("m2", -1)

    assert is_hash_of(stage, "ta", "tb", "u")


def test_topic_hash_omits_matched_topics_after_one_request_removed_both_members_with_the_pattern(stage):
    come(stage, "m2", "t.*")
    come(stage, "m3", "t.*")

    stage.leave("m2", "m3")

    assert is_hash_of(stage, "u")


def test_topic_hash_keeps_topics_that_match_another_pattern_or_are_subscribed_by_name(stage):
    come(stage, "m2", "t.*")
    stage.advance(NOT_WITHIN_MS)
    come(stage, "m3", "ta")
    come(stage, "m4", "", names=("tb",))

    stage.beat("m2", -1)
    assert is_hash_of(stage, "ta", "tb", "u")
    stage.beat("m4", -1)
    assert is_hash_of(stage, "ta", "u")


def test_topic_hash_omits_a_topic_after_its_last_subscriber_left(stage):
    stage.come("m2", "u", "ta")

    stage.beat("m2", -1)
    assert is_hash_of(stage, "u")
    stage.beat("m1", -1)
    assert is_hash_of(stage)


def test_adding_a_topic_name_to_a_pattern_subscription_keeps_the_matched_topics(stage):
    come(stage, "m2", "t.*")

    beat(stage, "m2", subscribed_topic_names=["u"])

    assert is_hash_of(stage, "ta", "tb", "u")


def test_member_that_changes_to_the_pattern_of_another_member_loses_its_previous_topics_at_once(stage):
    come(stage, "m2", "ta")
    stage.advance(NOT_WITHIN_MS)
    come(stage, "m3", "tb")
    assert is_hash_of(stage, "ta", "tb", "u")

    beat(stage, "m2", subscribed_topic_regex="tb")

    assert events(stage)[-1] == "subscription_changed"
    assert is_hash_of(stage, "tb", "u")


def test_member_that_changes_to_a_new_pattern_loses_its_previous_topics_before_the_topic_search(stage):
    come(stage, "m2", "ta")

    beat(stage, "m2", subscribed_topic_regex="t[b]")
    stage.topics.make("other", 1)
    beat(stage, "m1")
    assert (events(stage)[-1], is_hash_of(stage, "u")) == ("topics_changed", True)
    stage.advance(NOT_WITHIN_MS)
    beat(stage, "m1")

    assert (events(stage)[-1], is_hash_of(stage, "tb", "u")) == ("regex_resolved", True)


@pytest.mark.heavy
def test_topic_search_for_a_second_pattern_uses_the_current_partition_counts(stage):
    stage = stage_of(**{f"t{number:04}": 1 for number in range(3_000)})
    come(stage, "m1", "t.*")
    stage.advance(NOT_WITHIN_MS)
    beat(stage, "m1")
    come(stage, "m2", "t.+")
    assert "t.+" not in group(stage).regexes

    stage.topics.make("t0000", 5)
    stage.advance(5)
    assert "t.+" in group(stage).regexes
    raised = events(stage)
    beat(stage, "m1")
    beat(stage, "m2")

    assert raised[-1] == "regex_resolved"
    assert events(stage) == raised, "the topic hash already contains the partitions"


def test_journaled_delay_of_a_target_assignment_counts_from_the_epoch_raised_for_matched_topics(stage):
    come(stage, "m2", "t.*")
    stage.topics.make("tc", 1)
    stage.advance(NOT_WITHIN_MS)
    beat(stage, "m1")
    assert events(stage)[-1] == "regex_resolved"
    stage.advance(700)

    beat(stage, "m1")

    assert stage.entries(TargetComputed)[-1].after_ms == 700


def test_journaled_delay_of_a_target_assignment_counts_from_the_epoch_raised_for_a_leaving_member(stage):
    stage.come("m2", "u")
    stage.advance(100)
    stage.beat("m2", -1)
    stage.advance(600)

    beat(stage, "m1")

    assert stage.entries(TargetComputed)[-1].after_ms == 600


class TestPatternRefresh:
    def test_patterns_are_searched_again_after_10_seconds_if_topics_were_created(self, stage):
        come(stage, "m2", "t.*")
        stage.topics.make("tc", 1)

        stage.advance(NOT_WITHIN_MS - 1)
        beat(stage, "m1")
        assert group(stage).regexes["t.*"].topics == ["ta", "tb"]
        stage.advance(1)
        beat(stage, "m1")

        assert group(stage).regexes["t.*"].topics == ["ta", "tb", "tc"]

    def test_patterns_are_searched_again_after_10_minutes_without_new_topics(self, stage):
        come(stage, "m2", "t.*")

        def with_what_it_may_know(pause_ms: int) -> list[str]:
            stage.advance(pause_ms)
            for member_id in ("m1", "m2"):
                beat(stage, member_id, may_describe=lambda topic: topic != "tb")
            return group(stage).regexes["t.*"].topics

        for _ in range(REFRESH_MS // 40_000 - 1):
            assert with_what_it_may_know(40_000) == ["ta", "tb"]
        assert with_what_it_may_know(39_999) == ["ta", "tb"]
        assert with_what_it_may_know(1) == ["ta"]

    def test_heartbeat_starts_no_topic_search_during_another_search_of_the_group(self):
        stage = stage_of(**{f"t{number:04}": 1 for number in range(3_000)})
        come(stage, "m1", "t.*")
        search = group(stage).volatile.resolving
        assert search is not None

        beat(stage, "m1")

        assert group(stage).volatile.resolving is search

    def test_topic_search_continues_with_the_next_step_after_a_failed_append(self):
        stage = stage_of(**{f"t{number:04}": 1 for number in range(3_000)})
        come(stage, "m1", "t0.*")
        come(stage, "m2", "t1.*")
        stage.restart()
        stage.refuse_with = StorageError("the disk is full")
        beat(stage, "m1")  # starts two topic searches: the result of the first search cannot be persisted
        stage.advance(1)
        assert group(stage).regexes == {}

        stage.refuse_with = None
        stage.advance(5)

        assert list(group(stage).regexes) == ["t1.*"]
