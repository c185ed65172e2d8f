"""Functions for the tests of ``tools/mutants``: ``is_leap`` is well tested, of ``century`` only that it runs."""

FIRST_OF_ITS_CALENDAR = 1583


def is_leap(year: int) -> bool:
    """Tell whether a year has 366 days. Raises ValueError before the calendar begins."""
    if year < FIRST_OF_ITS_CALENDAR:
        raise ValueError(f"no year of this calendar: {year}")
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def century(year: int) -> int:
    """Give the century of a year."""
    return (year - 1) // 100 + 1


def doublings(years: int) -> int:
    """Count how often a year doubles until it is more than so many years."""
    count, reached = 0, 1
    while reached <= years:
        reached *= 2
        count += 1
    return count
