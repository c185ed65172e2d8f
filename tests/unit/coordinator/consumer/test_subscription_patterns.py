"""Subscription patterns of consumer groups. Searches for matching topics run between heartbeats."""

import pytest

from kohort.coordinator.consumer.subscribed_topics import NAMES_A_PATTERN, NAMES_A_STEP, TopicSearch
from kohort.coordinator.journal import EpochRaised
from kohort.coordinator.outcome import may_describe_all
from kohort.coordinator.records import EpochWritten, RegexResolved
from kohort.errors import ErrorCode, StorageError
from kohort.pattern import Pattern
from support.machines.coordinator_stage import CoordinatorStage, Topics

NOT_WITHIN_MS = 10_000
REFRESH_MS = 600_000


def stage_of(**topics: int) -> CoordinatorStage:
    return CoordinatorStage(topics=Topics(**topics), group_consumer_assignment_interval_ms=0)


def come(stage, regex, member_id="m", names=(), **fields):
    return stage.come(member_id, subscribed_topic_names=list(names), subscribed_topic_regex=regex, **fields)


def beat(stage, member_id="m", epoch=1, **fields):
    return stage.beat(member_id, epoch, **fields)


def resolved(stage) -> dict[str, list[str] | None]:
    found = [r for r in stage.records() if isinstance(r, RegexResolved)]
    return {r.regex: None if r.value is None else r.value.topics for r in found}


def test_first_heartbeat_is_answered_before_the_topic_search_for_its_pattern():
    stage = stage_of(ab=1, abc=2, b=1)

    joined = come(stage, "ab.*")
    response = beat(stage)

    assert (joined.member_epoch, stage.assignment_in(joined)) == (1, [])
    assert (response.member_epoch, stage.assignment_in(response)) == (2, [("ab", 0), ("abc", 0), ("abc", 1)])
    assert resolved(stage) == {"ab.*": ["ab", "abc"]}
    (raised,) = stage.entries(EpochRaised)
    assert (raised.cause.event, raised.cause.topics_added) == ("regex_resolved", ("ab", "abc"))


def test_topics_that_match_a_pattern_are_persisted_before_the_raised_epoch():
    stage = stage_of(t=1)

    come(stage, "t")

    assert [type(record) for record in stage.records()[-2:]] == [RegexResolved, EpochWritten]


def test_pattern_subscription_adds_topics_whose_whole_name_matches_to_the_subscribed_names():
    stage = stage_of(t=1, u=1, tt=1)
    come(stage, "t", names=["u"])

    assignments = [place for epoch in (2, 3) if (place := stage.assignment_in(beat(stage, epoch=epoch))) is not None]

    assert assignments[-1] == [("t", 0), ("u", 0)]


def test_pattern_that_matches_no_topic_keeps_the_group_epoch():
    stage = stage_of(t=1)

    come(stage, "x.*")

    assert resolved(stage) == {"x.*": []}
    assert stage.entries(EpochRaised) == []


def test_created_topics_match_a_pattern_after_the_refresh_interval():
    stage = stage_of(t=1)
    come(stage, "t.*")
    stage.topics.make("tt", 1)

    epoch = beat(stage).member_epoch
    assert resolved(stage) == {"t.*": ["t"]}
    stage.advance(NOT_WITHIN_MS)
    beat(stage, epoch=epoch)

    assert resolved(stage) == {"t.*": ["t", "tt"]}


def test_unchanged_matches_of_a_pattern_are_not_persisted_again():
    stage = stage_of(t=1)
    come(stage, "t.*")
    before = beat(stage).member_epoch
    written = len([r for r in stage.records() if isinstance(r, RegexResolved)])

    for _ in range(REFRESH_MS // 40_000 + 1):
        stage.advance(40_000)
        beat(stage, epoch=before)

    assert len([r for r in stage.records() if isinstance(r, RegexResolved)]) == written


def test_topic_search_persists_nothing_if_created_topics_match_no_pattern():
    stage = stage_of(t=1)
    come(stage, "t.*")
    stage.topics.make("u", 1)
    stage.advance(NOT_WITHIN_MS)
    searched_ms = stage.coordinator.groups_in_partition_of("g").consumer["g"].volatile.regexes_refreshed_ms

    beat(stage)

    assert (
        stage.coordinator.groups_in_partition_of("g").consumer["g"].volatile.regexes_refreshed_ms
        == searched_ms + NOT_WITHIN_MS
    )
    assert len([r for r in stage.records() if isinstance(r, RegexResolved)]) == 1


def test_topic_search_for_an_unused_pattern_persists_nothing():
    stage = stage_of(**{f"t{i:04}": 1 for i in range(3_000)})
    come(stage, "t.*")
    stage.beat("m", 1, subscribed_topic_regex="")

    stage.advance(NOT_WITHIN_MS)

    assert stage.coordinator.groups_in_partition_of("g").consumer["g"].volatile.resolving is None
    assert resolved(stage) == {}


def test_topic_search_omits_topics_without_describe_permission_of_the_heartbeat_sender():
    stage = stage_of(ta=1, tb=1)

    come(stage, "t.*", may_describe=lambda topic: topic != "tb")

    assert resolved(stage) == {"t.*": ["ta"]}


def test_pattern_of_several_members_is_deleted_when_the_last_of_them_leaves():
    stage = stage_of(t=2)
    come(stage, "t.*", "a")
    come(stage, "t.*", "b")

    stage.beat("a", -1)
    assert resolved(stage) == {"t.*": ["t"]}
    stage.beat("b", -1)

    assert resolved(stage) == {"t.*": None}


@pytest.mark.parametrize("other", ["u.*", ""])
def test_pattern_is_deleted_when_its_last_member_changes_to_another_pattern_or_to_none(other):
    stage = stage_of(t=2, u=1)
    epochs = {member: come(stage, "t.*", member).member_epoch for member in ("a", "b")}

    def says(member: str, regex: str) -> None:
        answer = stage.beat(member, epochs[member], subscribed_topic_regex=regex)
        assert answer.error_code == ErrorCode.NONE
        epochs[member] = answer.member_epoch

    says("a", "t.*")
    assert resolved(stage) == {"t.*": ["t"]}, "member a sends its pattern again"
    says("a", other)
    assert resolved(stage)["t.*"] == ["t"], "member b still uses the pattern"
    says("b", other)

    assert resolved(stage)["t.*"] is None
    assert RegexResolved("g", "t.*", None) in stage.records()


def test_pattern_that_is_replaced_before_its_topic_search_is_not_persisted():
    stage = stage_of(**{f"t{i:04}": 1 for i in range(3_000)})
    come(stage, "t.*")

    stage.beat("m", 1, subscribed_topic_regex="")

    assert resolved(stage) == {}


def test_error_message_for_a_too_long_pattern_contains_the_limit():
    regex = "a" * 10_001

    answer = come(stage_of(t=1), regex)

    why = "10001 characters; expected at most 10000"
    assert answer.error_message == f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {why}."


def test_apostrophes_in_an_invalid_pattern_do_not_change_the_error_message():
    answer = come(stage_of(t=1), "it's': (")

    problem = "is not a valid regular expression: missing closing )."
    assert answer.error_message == f"SubscribedTopicRegex `it's': (` {problem}"


@pytest.mark.parametrize("regex", ["a(", "*b", "a{2000}", "(?=a)", r"(a)\1"])
def test_heartbeat_with_an_invalid_pattern_is_rejected_with_the_reason(regex):
    stage = stage_of(t=1)

    answer = come(stage, regex)

    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.error_message.startswith(f"SubscribedTopicRegex `{regex}` is not a valid regular expression: ")
    assert stage.records() == []


@pytest.mark.parametrize("regex", [r"\p{Greek}", "[[:alpha:]]+", "", "(?i)T"])
def test_heartbeat_accepts_a_pattern_in_re2_syntax(regex):
    assert come(stage_of(t=1), regex).error_code == ErrorCode.NONE


def test_topic_search_among_many_topic_names_takes_several_steps():
    stage = stage_of(**{f"t{i:04}": 1 for i in range(3_000)})

    come(stage, "t.*")
    assert resolved(stage) == {}, "the first step of the search is not over"
    stage.advance(5)

    assert len(resolved(stage)["t.*"] or ()) == 3_000


def test_topic_search_restarts_after_a_failover():
    stage = stage_of(**{f"t{i:04}": 1 for i in range(3_000)})
    come(stage, "t.*")
    stage.restart()

    beat(stage)
    stage.advance(5)

    assert len(resolved(stage)["t.*"] or ()) == 3_000


def names(count: int) -> dict[str, int]:
    return {f"t{i:04}": 1 for i in range(count)}


def test_topic_searches_of_several_groups_run_one_after_another():
    stage = stage_of(**names(3_000))

    come(stage, "t.*", "a", group="one")
    come(stage, "t.*", "b", group="two")
    searching = []
    while len(searching) < 20:
        found = [stage.coordinator.groups_in_partition_of(group).consumer[group] for group in ("one", "two")]
        searching.append(sum(group.volatile.resolving is not None for group in found))
        stage.advance(1)

    assert max(searching) == 1
    assert all(group.subscribes_to("t2999") for group in found)


def test_deleted_group_does_not_block_topic_searches_of_other_groups():
    stage = stage_of(**names(3_000))
    come(stage, "t.*", "a", group="one")
    stage.beat("a", -1, group="one")

    come(stage, "t.*", "b", group="two")
    stage.advance(1_100)

    assert stage.coordinator.groups_in_partition_of("two").consumer["two"].subscribes_to("t2999")


def test_topic_search_for_a_new_pattern_skips_patterns_with_a_result_if_no_topic_was_created():
    stage = stage_of(**names(3_000))
    come(stage, "t.*", "a")
    stage.advance(NOT_WITHIN_MS)

    come(stage, "t2.*", "b")
    stage.advance(1)

    assert len(resolved(stage)["t2.*"] or ()) == 1_000


def test_topic_search_continues_after_a_failed_append():
    stage = stage_of(**names(3_000))
    come(stage, "t0.*", "a")
    come(stage, "t1.*", "b")
    stage.refuse_with = StorageError("the disk is full")
    stage.advance(5)
    assert "matches of subscription patterns cannot be persisted" in stage.coordinator.take_notes()[0].text
    stage.refuse_with = None
    stage.advance(NOT_WITHIN_MS)

    epochs = [stage.beat(member, 1).member_epoch for member in ("a", "b")]
    stage.advance(10)

    assert epochs == [1, 1]
    assert {regex: len(topics or ()) for regex, topics in resolved(stage).items()} == {"t0.*": 1_000, "t1.*": 1_000}


def test_second_pattern_with_the_same_matched_topics_raises_the_group_epoch():
    stage = stage_of(t=2)
    come(stage, "t.*", "a")
    stage.advance(NOT_WITHIN_MS)

    come(stage, "t.?", "b")

    causes = [(entry.epoch, entry.cause.event, entry.cause.topics_added) for entry in stage.entries(EpochRaised)]
    assert causes == [(2, "regex_resolved", ("t",)), (3, "regex_resolved", ("t",))]


def test_idle_topic_search_of_a_group_lets_other_groups_search_and_continues_later():
    stage = stage_of(**names(5_000))
    for group in ("one", "two", "three"):
        come(stage, "t.*", group, group=group)
    stage.advance(1)
    found = [stage.coordinator.groups_in_partition_of(group).consumer[group] for group in ("one", "two", "three")]
    assert [group.volatile.resolving is not None for group in found] == [True, False, False]

    stage.clock.advance(5_000)
    stage.advance(0)
    assert [group.volatile.resolving is not None for group in found] == [True, False, True]

    stage.advance(1_000)
    assert all(group.subscribes_to("t4999") for group in found)


def test_topic_hash_omits_topics_that_no_pattern_matches_anymore():
    stage = stage_of(ta=1, tb=1)
    come(stage, "t.*")
    all_but_tb = {"may_describe": lambda topic: topic != "tb"}
    epoch = beat(stage).member_epoch
    for _ in range(REFRESH_MS // 40_000 + 1):
        stage.advance(40_000)
        epoch = beat(stage, epoch=epoch, **all_but_tb).member_epoch
    assert resolved(stage) == {"t.*": ["ta"]}

    stage.topics.make("other", 1)
    beat(stage, epoch=epoch, **all_but_tb)

    causes = [entry.cause for entry in stage.entries(EpochRaised)]
    assert [(cause.event, cause.topics_removed) for cause in causes] == [
        ("regex_resolved", ()),
        ("regex_resolved", ("tb",)),
    ], "the new topic does not match the pattern"


def test_topic_name_that_is_costly_to_match_counts_twice_in_a_search_step():
    name = "t" * 50
    assert Pattern("t{6}").size * len(name) == 500
    half = (NAMES_A_STEP - NAMES_A_PATTERN) // 2

    def steps(count: int) -> int:
        search = TopicSearch(["t{6}"], [name] * count, may_describe_all, 0)
        taken = 0
        while not search.is_done:
            search.step(0)
            taken += 1
        return taken

    assert (steps(half - 1), steps(half)) == (1, 2)


class TestPatternMemory:
    def test_memory_limit_counts_and_refuses_topics_that_match_a_pattern(self):
        stage = CoordinatorStage(topics=Topics(**names(1_000)), group_coordinator_max_bytes=50_000)

        joined = come(stage, "t.*")
        stage.advance(5)

        assert joined.error_code == ErrorCode.NONE
        assert resolved(stage) == {}
        assert "group.coordinator.max.bytes" in stage.coordinator.take_notes()[0].text
        assert stage.assignment_in(beat(stage)) is None, "the member stays in the group without partitions"

    def test_topic_search_for_a_pattern_succeeds_after_memory_is_freed(self):
        stage = CoordinatorStage(topics=Topics(**names(1_000)), group_coordinator_max_bytes=200_000)
        come(stage, "t.*", "a", group="one")
        come(stage, "t.*", "b", group="two")
        stage.advance(5)
        two = stage.coordinator.groups_in_partition_of("two").consumer["two"]
        assert not two.subscribes_to("t0001")

        stage.beat("a", -1, group="one")
        stage.advance(NOT_WITHIN_MS)
        stage.beat("b", 1, group="two")
        stage.advance(5)

        assert two.subscribes_to("t0001")

    def test_patterns_that_match_the_same_topics_share_the_strings_of_the_topic_names(self):
        stage = stage_of(**names(100))
        for i in range(5):
            come(stage, f"(t.*|{i})", f"m{i}")
        stage.advance(NOT_WITHIN_MS)
        stage.restart()
        beat(stage, "m0")
        stage.advance(5)

        group = stage.coordinator.groups_in_partition_of("g").consumer["g"]

        kept = {id(topic) for value in group.regexes.values() for topic in value.topics}
        assert len(group.regexes) == 5
        assert len(kept) == 100
