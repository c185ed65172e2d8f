"""Patterns of strangers: what they match, and that none of them holds whoever has to try it."""

import pytest

from kohort.errors import ApiError, ErrorCode
from kohort.pattern import LENGTH_MAX, Pattern, PatternRefused


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("orders-.*", "orders-7", True),
        ("orders", "orders-7", False),
        ("(?i)ORDERS-[0-9]+", "orders-7", True),
        ("^a|b$", "b", True),
        (r"größe-\p{L}+", "größe-ä", True),
        ("", "", True),
        (r"\{123456789\}", "{123456789}", True),
    ],
)
def test_a_pattern_matches_the_whole_text(pattern, text, matches):
    assert Pattern(pattern).fullmatch(text) is matches


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "missing )"),
        ("[z-a]", "invalid character class range: z-a"),
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("(?=a)", "invalid perl operator: (?="),
        ("a{99999999999999}", "repeat count too large"),
        ("a{1,99999999999999}", "repeat count too large"),
        ("((a{1000}){1000}){1000}", "invalid repetition size"),
        ("(" * 5_000 + "a" + ")" * 5_000, f"10001 characters; expected at most {LENGTH_MAX}"),
        (r"\p{L}{50}", "pattern too large"),
    ],
)
def test_what_is_no_pattern_is_refused_in_words_and_nothing_else_is_said(pattern, why, capfd):
    with pytest.raises(ApiError) as refused:
        Pattern(pattern)

    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert why in refused.value.message
    assert len(refused.value.message) < 300
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "pattern",
    [r"\pL" * 151, r"[\pL]" * 151, "[" + r"\p{Nd}\PL" * 76 + "]", "a{1000}" * 26, "a{1,1000}" * 26, "a{1000,}" * 26],
    ids=["classes", "brackets", "one bracket", "counts", "ranges of counts", "least counts"],
)
def test_pattern_whose_size_shows_in_its_text_is_refused_before_re2_reads_it(pattern):
    with pytest.raises(PatternRefused) as refused:
        Pattern(pattern)

    assert refused.value.why == "pattern too large", "RE2 adds that its compilation failed"


def test_pattern_with_as_many_classes_and_counts_as_are_taken_is_read():
    assert Pattern("[" + r"\pL" * 150 + "]").fullmatch("ä")
    assert Pattern(r"\\pL\{1000}" * 160).fullmatch(r"\pL{1000}" * 160), "escapes are no classes and no counts"
    assert Pattern("a{1000}" * 20).size > 20_000


def test_deep_nesting_is_a_pattern_like_another():
    assert Pattern("(" * 4_000 + "a" + ")" * 4_000).fullmatch("a")


def test_a_pattern_that_backtracks_for_days_elsewhere_is_tried_at_once():
    assert not Pattern("(a+)+$").fullmatch("a" * 32_000 + "!")


def test_work_that_grows_with_the_pattern_and_the_texts_ends_in_a_refusal():
    pattern = Pattern("(a|b)*a(a|b){500}")

    with pytest.raises(ApiError, match=r"its program of 506 steps is too large for the texts to match"):
        any(pattern.fullmatch("ab" * 16_000) for _ in range(1_000))


def test_a_usual_pattern_is_tried_on_as_many_names_as_there_are():
    pattern = Pattern("orders-.*")

    assert all(pattern.fullmatch(f"orders-{i:029}") for i in range(70_000))
