"""Of a commit by somebody who is no member it is told once in a while, sooner where it goes backwards."""

import pytest

from kohort.coordinator.journal import Who
from kohort.coordinator.remembered import TOLD_AGAIN_MS, TOLD_BACK_MS, OutsideCommitters

WHO = Who("", "tool", "/h")


@pytest.mark.parametrize(("backwards", "after_ms"), [(False, TOLD_AGAIN_MS), (True, TOLD_BACK_MS)])
def test_it_is_news_again_after_a_while(backwards, after_ms):
    committers = OutsideCommitters()
    assert committers.is_news("g", WHO, 1_000_000, backwards=backwards)

    late = [committers.is_news("g", WHO, 1_000_000 + ms, backwards=backwards) for ms in (1, after_ms - 1, after_ms)]

    assert late == [False, False, True]
    assert not committers.is_news("g", WHO, 1_000_000 + after_ms + 1, backwards=backwards)


def test_it_is_news_of_another_group_or_client():
    committers = OutsideCommitters()
    committers.is_news("g", WHO, 0, backwards=False)
    assert committers.is_news("h", WHO, 1, backwards=False)
    assert committers.is_news("g", Who("", "other", "/h"), 1, backwards=False)
