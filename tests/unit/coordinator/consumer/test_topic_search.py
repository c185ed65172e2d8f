"""How far a search for the topics of expressions goes before others are served, and what it finds."""

from kohort.coordinator.consumer.subscribed_topics import TopicSearch
from kohort.coordinator.outcome import may_describe_all

NAMES = 2_000
"""So many are tried in a step; reading an expression takes as long as a hundred of them."""
READ = 100


def named(count: int) -> list[str]:
    return [f"t{number:05}" for number in range(count)]


def steps(regexes: list[str], count: int) -> list[list[str]]:
    """Which expressions were found in each step."""
    search = TopicSearch(regexes, named(count), may_describe_all, 0)
    taken = []
    while not search.is_done:
        taken.append(list(search.step(7)))
    assert search.stepped_ms == 7
    return taken


def test_a_step_ends_after_so_many_names():
    assert steps(["t"], NAMES - READ - 1) == [["t"]]
    assert steps(["t"], NAMES - READ) == [[], ["t"]]
    assert steps(["t"], NAMES - READ + NAMES - 1) == [[], ["t"]]
    assert steps(["t"], NAMES - READ + NAMES) == [[], [], ["t"]]


def test_expressions_are_read_in_the_same_step_as_long_as_there_is_room():
    many = [f"x{number}" for number in range(21)]
    assert steps(many, 0) == [many], "without names nothing is tried"
    assert steps(many[:10], 100) == [many[:9], many[9:10]]
    assert steps(many[:9], 100) == [many[:9]]


def test_what_matches_very_much_is_written_in_a_step_of_its_own():
    assert steps(["t.*"], NAMES - 1) == [[], ["t.*"]], "the last of them is the first of the second step"
    assert steps(["t.*"], NAMES) == [[], [], ["t.*"]]


def test_after_that_much_was_found_the_step_has_no_room_for_another_expression():
    assert steps(["t.*", "x"], NAMES) == [[], [], ["t.*"], ["x"]]
    assert steps(["x", "y"], NAMES // 2) == [["x"], ["y"]]


def test_it_has_less_room_by_half_of_what_was_found():
    """Of 4100 names the first expression matches 2000: the second one begins with what is left of the fourth step, 900
    names, and ends with the 1200 that the sixth one begins with."""
    assert steps(["t0[01].*", "x"], 4_100) == [[], [], [], ["t0[01].*"], [], ["x"]]


def test_what_the_sender_may_not_describe_is_asked_once_for_each_name_and_left_out():
    asked: list[str] = []

    def may_describe(name: str) -> bool:
        asked.append(name)
        return name != "tb"

    search = TopicSearch(["t.*", ".*b", "none"], ["tb", "ta", "u"], may_describe, 0)

    assert search.step(1) == {"t.*": ["ta"], ".*b": [], "none": []}
    assert asked == ["ta", "tb"]


def test_what_only_re2j_reads_matches_nothing_and_the_next_is_tried():
    search = TopicSearch(["(", "t"], ["t"], may_describe_all, 0)

    assert search.step(1) == {"(": [], "t": ["t"]}
