"""Driver of a client's request engine: sockets and timer."""

from __future__ import annotations

import asyncio
import socket

import pytest

from kohort.aio.driver import Driver
from kohort.client.requests.io import Closed, FramesArrived, Open, Opened, Send, Tick
from kohort.config.client import ClientConfig
from kohort.errors import KohortError


class Engine:
    credentials = None
    config = ClientConfig(bootstrap_servers=["127.0.0.1:1"])

    def __init__(self, script=lambda _event: ()) -> None:
        self.script = script
        self.events = []
        self.frames = bytearray(100)
        self.wake_at_ms: int | None = None

    def room(self, connection):
        return memoryview(self.frames)

    def arrived(self, connection, count):
        self.events.append(bytes(self.frames[:count]))
        return True

    def handle(self, event, now_ms):
        self.events.append(event)
        return self.script(event)

    def close(self, now_ms):
        return ()


def run(story):
    return asyncio.run(asyncio.wait_for(story, 60))


def test_driver_sends_and_receives_bytes():
    async def story():
        async def shout(reader, writer):
            writer.write((await reader.read(100)).upper())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(shout, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        def script(event):
            match event:
                case Tick():
                    return [Open(7, "127.0.0.1", port)]
                case Opened(7):
                    return [Send(7, [b"hello ", memoryview(b"there")])]
            return ()

        engine = Engine(script)
        driver = Driver(engine)
        driver.kick()
        await driver.until(lambda: True if any(isinstance(event, Closed) for event in engine.events) else None)
        await driver.close()
        server.close()
        return engine.events

    assert run(story()) == [
        Tick(),
        Opened(7),
        b"HELLO THERE",
        FramesArrived(7),
        Closed(7, "the broker closed the connection"),
    ]


def test_failed_connection_is_reported_to_engine_as_closed():
    async def story():
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            engine = Engine(lambda event: [Open(1, "127.0.0.1", port)] if isinstance(event, Tick) else ())
            driver = Driver(engine)
            driver.kick()
            await driver.until(lambda: True if len(engine.events) > 1 else None)
            await driver.close()
            return engine.events

    _, closed = run(story())
    assert isinstance(closed, Closed)
    assert closed.reason == "Connection refused"


def test_driver_runs_engine_once_after_several_kicks():
    async def story():
        engine = Engine()
        driver = Driver(engine)
        for _ in range(10):
            driver.kick()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await driver.close()
        return engine.events

    assert run(story()) == [Tick()]


def test_driver_runs_engine_at_its_wake_time():
    async def story():
        engine = Engine()
        driver = Driver(engine)

        def once(_event):
            engine.wake_at_ms = driver.clock.now_ms() + 20 if len(engine.events) == 1 else None
            return ()

        engine.script = once
        driver.kick()
        found = await driver.until(lambda: True if len(engine.events) == 2 else None, 30_000)
        await driver.close()
        return found

    assert run(story()) is True


def test_wait_of_driver_ends_at_timeout_and_when_driver_stops():
    async def story():
        driver = Driver(Engine())
        late = await driver.until(lambda: None, 10)
        waiting = asyncio.ensure_future(driver.until(lambda: None))
        await asyncio.sleep(0)
        await driver.close()
        return late, await waiting

    assert run(story()) == (None, None)


def test_error_in_condition_of_a_wait_is_raised_by_the_waiting_call():
    async def story():
        engine = Engine()
        driver = Driver(engine)

        def condition():
            if engine.events:
                raise KohortError("hopeless")

        try:
            await driver.until(condition, 30_000)
        finally:
            await driver.close()

    with pytest.raises(KohortError, match="hopeless"):
        run(story())


def test_internal_error_of_engine_fails_current_and_later_waits():
    async def story():
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)

        def broken(_event):
            raise ZeroDivisionError("planted")

        driver = Driver(Engine(broken))
        steps = []
        driver.on_progress(lambda: steps.append(driver.failure))
        errors = []
        for _ in range(2):
            try:
                await driver.until(lambda: None, 30_000)
            except KohortError as error:
                errors.append(str(error))
        await driver.close()
        return errors, steps

    errors, steps = run(story())
    assert errors == ["an internal error of kohort closed this client: ZeroDivisionError: planted"] * 2
    assert steps[0] is not None, "the driver also notifies listeners, which then fail their pending calls"


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "no..host"])
def test_connection_to_invalid_host_name_is_closed_with_reason(host):
    async def story():
        engine = Engine(lambda event: [Open(7, host, 9092)] if event == Tick() else ())
        driver = Driver(engine)
        driver.kick()
        await driver.until(lambda: True if any(isinstance(event, Closed) for event in engine.events) else None)
        await driver.close()
        return engine.events

    assert Closed(7, "invalid host name") in run(story())
