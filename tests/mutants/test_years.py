"""What the tests of ``tools/mutants`` let it run: strict about one function, lax about another."""

import pytest

from support.years import century, doublings, is_leap


@pytest.mark.parametrize(("year", "leap"), [(2023, False), (2024, True), (1900, False), (2000, True), (1583, False)])
def test_leap_years(year, leap):
    assert is_leap(year) is leap


def test_no_leap_years_before_the_calendar():
    with pytest.raises(ValueError, match="1582"):
        is_leap(1582)


def test_some_century():
    assert century(1900) is not None


def test_a_century_has_seven_doublings():
    assert doublings(100) == 7
