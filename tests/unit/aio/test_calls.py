"""Calls are run to their end, whatever their waits bring: the same for threads and for tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from kohort.aio.calls import Call, Run, Wait, run_call, run_call_async
from kohort.errors import ApiTimeout


class Interrupt(BaseException):
    """As KeyboardInterrupt, which would end the tests."""


def work_of(wait: Wait) -> Any:
    assert isinstance(wait, Run)
    return wait.work()


def in_a_thread(call: Call[Any]) -> Any:
    return run_call(call, work_of)


def in_a_task(call: Call[Any]) -> Any:
    async def wait_out(wait: Wait) -> Any:
        await asyncio.sleep(0)
        return work_of(wait)

    return asyncio.run(run_call_async(call, wait_out))


def failing(error: BaseException) -> Callable[[], Any]:
    def work() -> Any:
        raise error

    return work


@pytest.fixture(params=[in_a_thread, in_a_task])
def run(request: pytest.FixtureRequest) -> Callable[[Call[Any]], Any]:
    runner: Callable[[Call[Any]], Any] = request.param
    return runner


def test_a_call_goes_on_with_what_came_of_each_wait(run):
    def call() -> Call[str]:
        first = yield Run(lambda: "a")
        second = yield Run(lambda: first + "b")
        return second + "c"

    assert run(call()) == "abc"


def test_a_call_without_waits_has_a_result_too(run):
    def call() -> Call[int]:
        yield from ()
        return 7

    assert run(call()) == 7


def test_what_a_wait_raises_is_raised_where_the_call_waits(run):
    def call() -> Call[str]:
        with suppress(ApiTimeout):
            yield Run(failing(ApiTimeout("too late")))
        return "went on"

    assert run(call()) == "went on"


def test_an_error_that_the_call_does_not_take_comes_out(run):
    def call() -> Call[None]:
        yield Run(failing(ApiTimeout("too late")))

    with pytest.raises(ApiTimeout, match="too late"):
        run(call())


def test_an_error_of_the_call_itself_comes_out(run):
    def call() -> Call[None]:
        yield Run(lambda: None)
        raise ApiTimeout("of its own")

    with pytest.raises(ApiTimeout, match="of its own"):
        run(call())


def test_what_must_be_done_at_the_end_may_wait_although_the_call_was_interrupted(run):
    done: list[str] = []

    def call() -> Call[None]:
        try:
            yield Run(failing(Interrupt()))
        finally:
            yield Run(lambda: done.append("said goodbye"))
            done.append("ended")

    with pytest.raises(Interrupt):
        run(call())
    assert done == ["said goodbye", "ended"]


def test_a_second_interrupt_does_not_keep_the_outer_end_from_its_turn(run):
    done: list[str] = []

    def call() -> Call[None]:
        try:
            try:
                yield Run(failing(Interrupt("first")))
            finally:
                yield Run(failing(Interrupt("second")))
        finally:
            yield Run(lambda: done.append("ended"))

    with pytest.raises(Interrupt, match="second"):
        run(call())
    assert done == ["ended"]


def test_a_stray_stop_iteration_of_the_users_work_is_not_taken_for_the_end():
    def call() -> Call[str]:
        yield Run(lambda: next(iter([])))
        return "the end"

    with pytest.raises(RuntimeError, match="StopIteration"):
        in_a_thread(call())
