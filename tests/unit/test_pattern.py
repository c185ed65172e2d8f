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
def test_pattern_matches_the_whole_text(pattern, text, matches):
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
def test_invalid_pattern_is_rejected_with_a_short_reason(pattern, why, capfd):
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
def test_obviously_large_pattern_is_rejected_before_re2_compiles_it(pattern):
    with pytest.raises(PatternRefused) as refused:
        Pattern(pattern)

    assert refused.value.why == "pattern too large", "RE2 adds that its compilation failed"


def test_pattern_with_maximum_of_classes_and_counts_is_compiled():
    assert Pattern("[" + r"\pL" * 150 + "]").fullmatch("ä")
    assert Pattern(r"\\pL\{1000}" * 160).fullmatch(r"\pL{1000}" * 160), "escapes are no classes and no counts"
    assert Pattern("a{1000}" * 20).size > 20_000


def test_deeply_nested_pattern_is_compiled():
    assert Pattern("(" * 4_000 + "a" + ")" * 4_000).fullmatch("a")


def test_pattern_with_exponential_backtracking_is_fast():
    assert not Pattern("(a+)+$").fullmatch("a" * 32_000 + "!")


def test_work_limit_rejects_large_pattern_on_long_texts():
    pattern = Pattern("(a|b)*a(a|b){500}")

    with pytest.raises(ApiError, match=r"its program of 506 steps is too large for the texts to match"):
        any(pattern.fullmatch("ab" * 16_000) for _ in range(1_000))


def test_usual_pattern_matches_many_names_within_the_work_limit():
    pattern = Pattern("orders-.*")

    assert all(pattern.fullmatch(f"orders-{i:029}") for i in range(70_000))
