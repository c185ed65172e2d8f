"""Search for topics that match subscription patterns of a group: work limits of each search step."""

from kohort.coordinator.consumer.subscribed_topics import TopicSearch
from kohort.coordinator.outcome import may_describe_all

NAMES = 2_000
READ = 100


def named(count: int) -> list[str]:
    return [f"t{number:05}" for number in range(count)]


def steps(regexes: list[str], count: int) -> list[list[str]]:
    search = TopicSearch(regexes, named(count), may_describe_all, 0)
    taken = []
    while not search.is_done:
        taken.append(list(search.step(7)))
    assert search.stepped_ms == 7
    return taken


def test_topic_search_step_ends_after_2000_topic_names():
    assert steps(["t"], NAMES - READ - 1) == [["t"]]
    assert steps(["t"], NAMES - READ) == [[], ["t"]]
    assert steps(["t"], NAMES - READ + NAMES - 1) == [[], ["t"]]
    assert steps(["t"], NAMES - READ + NAMES) == [[], [], ["t"]]


def test_topic_search_step_parses_several_patterns():
    many = [f"x{number}" for number in range(21)]
    assert steps(many, 0) == [many], "without topic names the patterns cost only their parsing"
    assert steps(many[:10], 100) == [many[:9], many[9:10]]
    assert steps(many[:9], 100) == [many[:9]]


def test_topic_search_step_ends_after_a_pattern_with_many_matches():
    assert steps(["t.*"], NAMES - 1) == [[], ["t.*"]], "the step ends at the last name"
    assert steps(["t.*"], NAMES) == [[], [], ["t.*"]]


def test_topic_search_step_parses_no_other_pattern_after_many_matches():
    assert steps(["t.*", "x"], NAMES) == [[], [], ["t.*"], ["x"]]
    assert steps(["x", "y"], NAMES // 2) == [["x"], ["y"]]


def test_topic_search_step_compares_fewer_topic_names_after_many_matches():
    assert steps(["t0[01].*", "x"], 4_100) == [[], [], [], ["t0[01].*"], [], ["x"]]


def test_topic_search_checks_describe_permission_once_per_topic():
    checked: list[str] = []

    def may_describe(name: str) -> bool:
        checked.append(name)
        return name != "tb"

    search = TopicSearch(["t.*", ".*b", "none"], ["tb", "ta", "u"], may_describe, 0)

    assert search.step(1) == {"t.*": ["ta"], ".*b": [], "none": []}
    assert checked == ["ta", "tb"]


def test_topic_search_finds_no_topics_for_a_pattern_that_is_valid_only_in_re2j():
    search = TopicSearch(["(", "t"], ["t"], may_describe_all, 0)

    assert search.step(1) == {"(": [], "t": ["t"]}
