"""Members that subscribe by a regular expression: what it matches is found beside the heartbeats."""

import pytest

from kohort.coordinator.consumer_records import EpochWritten, RegexResolved
from kohort.coordinator.journal import EpochRaised
from kohort.errors import ErrorCode
from support.machines.coordinator_stage import CoordinatorStage, Topics

NOT_WITHIN_MS = 10_000
REFRESH_MS = 600_000


def stage_of(**topics: int) -> CoordinatorStage:
    return CoordinatorStage(topics=Topics(**topics), group_consumer_assignment_interval_ms=0)


def come(stage, regex, member_id="m", names=(), **said):
    return stage.come(member_id, subscribed_topic_names=list(names), subscribed_topic_regex=regex, **said)


def beat(stage, member_id="m", epoch=1, **said):
    return stage.beat(member_id, epoch, **said)


def resolved(stage) -> dict[str, list[str] | None]:
    """What the log says that each expression matched last; None where it is forgotten."""
    found = [r for r in stage.records() if isinstance(r, RegexResolved)]
    return {r.regex: None if r.value is None else r.value.topics for r in found}


def test_the_join_is_answered_before_it_is_resolved_and_the_next_heartbeat_has_the_partitions():
    stage = stage_of(ab=1, abc=2, b=1)

    joined = come(stage, "ab.*")
    told = beat(stage)

    assert (joined.member_epoch, stage.told(joined)) == (1, [])
    assert (told.member_epoch, stage.told(told)) == (2, [("ab", 0), ("abc", 0), ("abc", 1)])
    assert resolved(stage) == {"ab.*": ["ab", "abc"]}
    (raised,) = stage.entries(EpochRaised)
    assert (raised.cause.event, raised.cause.topics_added) == ("regex_resolved", ("ab", "abc"))


def test_what_is_found_is_written_before_the_epoch_that_it_makes():
    stage = stage_of(t=1)

    come(stage, "t")

    assert [type(record) for record in stage.records()[-2:]] == [RegexResolved, EpochWritten]


def test_an_expression_matches_a_whole_name_and_is_added_to_the_names():
    stage = stage_of(t=1, u=1, tt=1)
    come(stage, "t", names=["u"])

    told = [place for epoch in (2, 3) if (place := stage.told(beat(stage, epoch=epoch))) is not None]

    assert told[-1] == [("t", 0), ("u", 0)]


def test_one_that_matches_nothing_is_resolved_and_raises_no_epoch():
    stage = stage_of(t=1)

    come(stage, "x.*")

    assert resolved(stage) == {"x.*": []}
    assert stage.entries(EpochRaised) == []


def test_topics_that_are_made_are_found_but_not_at_once():
    stage = stage_of(t=1)
    come(stage, "t.*")
    stage.topics.make("tt", 1)

    epoch = beat(stage).member_epoch
    assert resolved(stage) == {"t.*": ["t"]}
    stage.advance(NOT_WITHIN_MS)
    beat(stage, epoch=epoch)

    assert resolved(stage) == {"t.*": ["t", "tt"]}


def test_nothing_is_written_where_nothing_has_changed():
    stage = stage_of(t=1)
    come(stage, "t.*")
    before = beat(stage).member_epoch
    written = len([r for r in stage.records() if isinstance(r, RegexResolved)])

    for _ in range(REFRESH_MS // 40_000 + 1):
        stage.advance(40_000)
        beat(stage, epoch=before)

    assert len([r for r in stage.records() if isinstance(r, RegexResolved)]) == written


def test_topics_that_the_sender_of_the_heartbeat_may_not_describe_are_left_out_for_all():
    stage = stage_of(ta=1, tb=1)

    come(stage, "t.*", may_describe=lambda topic: topic != "tb")

    assert resolved(stage) == {"t.*": ["ta"]}


def test_it_is_shared_and_forgotten_with_its_last_user():
    stage = stage_of(t=2)
    come(stage, "t.*", "a")
    come(stage, "t.*", "b")

    stage.beat("a", -1)
    assert resolved(stage) == {"t.*": ["t"]}
    stage.beat("b", -1)

    assert resolved(stage) == {"t.*": None}


@pytest.mark.parametrize("regex", ["a(", "*b", "a{2000}", "(?=a)", r"(a)\1"])
def test_what_is_none_is_refused_with_the_reason(regex):
    stage = stage_of(t=1)

    answer = come(stage, regex)

    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.error_message.startswith(f"SubscribedTopicRegex `{regex}` is not a valid regular expression: ")
    assert stage.records() == []


@pytest.mark.parametrize("regex", [r"\p{Greek}", "[[:alpha:]]+", "", "(?i)T"])
def test_what_re2_reads_is_taken(regex):
    assert come(stage_of(t=1), regex).error_code == ErrorCode.NONE


def test_many_names_are_tried_a_step_at_a_time():
    stage = stage_of(**{f"t{i:04}": 1 for i in range(3_000)})

    come(stage, "t.*")
    assert resolved(stage) == {}, "others are served in between"
    stage.advance(1)

    assert len(resolved(stage)["t.*"] or ()) == 3_000


def test_a_failover_in_the_midst_of_it_begins_anew():
    stage = stage_of(**{f"t{i:04}": 1 for i in range(3_000)})
    come(stage, "t.*")
    stage.restart()

    beat(stage)
    stage.advance(1)

    assert len(resolved(stage)["t.*"] or ()) == 3_000
