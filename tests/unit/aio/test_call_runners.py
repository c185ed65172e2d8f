import asyncio

import pytest

from kohort.aio.calls import run_call, run_call_async
from kohort.aio.producing.producer_calls import Wait


def both(make_call, answer):
    async def later(wait):
        await asyncio.sleep(0)
        return answer(wait)

    yield lambda: run_call(make_call(), answer)
    yield lambda: asyncio.run(run_call_async(make_call(), later))


def test_client_call_gets_result_of_each_wait():
    def call():
        first = yield Wait(lambda: 1, 10)
        second = yield Wait(lambda: 2, 20)
        return first, second

    for carry_out in both(call, lambda wait: (wait.ready(), wait.timeout_ms)):
        assert carry_out() == ((1, 10), (2, 20))


def test_client_call_without_waits_returns_immediately():
    def call():
        return 5
        yield

    for carry_out in both(call, lambda _wait: pytest.fail("there is nothing to wait for")):
        assert carry_out() == 5


def test_error_of_a_wait_is_raised_inside_client_call():
    def failing(_wait):
        raise OSError("no")

    def call():
        try:
            yield Wait(lambda: None, None)
        except OSError as error:
            return f"handled {error}"

    def careless_call():
        yield Wait(lambda: None, None)

    for carry_out in both(call, failing):
        assert carry_out() == "handled no"
    for carry_out in both(careless_call, failing):
        with pytest.raises(OSError, match="no"):
            carry_out()
