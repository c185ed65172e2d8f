from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from kohort.aio.calls import Call, Run, Wait, run_call, run_call_async
from kohort.errors import ApiTimeout


class Interrupt(BaseException):
    pass


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


def test_client_call_continues_with_the_result_of_each_wait(run):
    def call() -> Call[str]:
        first = yield Run(lambda: "a")
        second = yield Run(lambda: first + "b")
        return second + "c"

    assert run(call()) == "abc"


def test_client_call_without_waits_returns_its_result(run):
    def call() -> Call[int]:
        yield from ()
        return 7

    assert run(call()) == 7


def test_error_of_a_wait_is_raised_at_the_yield_of_the_client_call(run):
    def call() -> Call[str]:
        with suppress(ApiTimeout):
            yield Run(failing(ApiTimeout("too late")))
        return "went on"

    assert run(call()) == "went on"


def test_unhandled_error_of_a_wait_is_raised_to_the_user(run):
    def call() -> Call[None]:
        yield Run(failing(ApiTimeout("too late")))

    with pytest.raises(ApiTimeout, match="too late"):
        run(call())


def test_error_raised_inside_a_client_call_is_raised_to_the_user(run):
    def call() -> Call[None]:
        yield Run(lambda: None)
        raise ApiTimeout("of its own")

    with pytest.raises(ApiTimeout, match="of its own"):
        run(call())


def test_finally_clause_of_client_call_may_wait_after_an_interrupt(run):
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


def test_outer_finally_clause_runs_after_a_second_interrupt(run):
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


def test_stop_iteration_raised_by_user_code_does_not_end_client_call():
    def call() -> Call[str]:
        yield Run(lambda: next(iter([])))
        return "the end"

    with pytest.raises(RuntimeError, match="StopIteration"):
        in_a_thread(call())
