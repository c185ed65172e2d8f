from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from kohort.aio.addresses import connect_to, first_connected
from kohort.aio.io_thread import new_loop

LIMIT_S = 1.5


def info(host: str, port: int):
    return (socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def silent_port() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield port
        for filler in fillers:
            filler.close()


def connected(addresses, loop_factory):
    async def story():
        found = await first_connected(addresses, LIMIT_S)
        try:
            return found.getpeername()
        finally:
            found.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(story())


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, new_loop])
def test_address_without_answer_leaves_time_for_next_address(listening, silent_port, loop_factory):
    here = listening.getsockname()
    assert connected([info("127.0.0.1", silent_port), info(*here)], loop_factory) == here


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, new_loop])
def test_address_that_refuses_connections_is_skipped(listening, loop_factory):
    here = listening.getsockname()
    assert connected([info("127.0.0.1", 1), info(*here)], loop_factory) == here


def test_failed_connection_raises_error_of_last_address(silent_port):
    with pytest.raises(ConnectionRefusedError):
        connected([info("127.0.0.1", silent_port), info("127.0.0.1", 1)], asyncio.new_event_loop)


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "no..host"])
def test_invalid_host_name_raises_os_error(host):
    with pytest.raises(OSError, match="invalid host name"):
        asyncio.run(connect_to(host, 9092, LIMIT_S))


class SlowNames(asyncio.SelectorEventLoop):
    def __init__(self, found):
        super().__init__()
        self.lookups = 0
        self.answered = asyncio.Event()
        self._found = found

    async def getaddrinfo(self, *_args, **_words):
        self.lookups += 1
        await self.answered.wait()
        if isinstance(self._found, OSError):
            raise self._found
        return self._found


def test_result_of_slow_dns_lookup_is_used_by_next_connection_attempt(listening):
    here = listening.getsockname()

    async def story():
        loop: Any = asyncio.get_running_loop()
        cancelled = asyncio.create_task(connect_to("slow.example", 9092, LIMIT_S))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        loop.answered.set()
        await asyncio.sleep(0)
        found = await connect_to("slow.example", 9092, LIMIT_S)
        assert (found.getpeername(), loop.lookups) == (here, 1)
        found.close()

        (await connect_to("slow.example", 9092, LIMIT_S)).close()
        assert loop.lookups == 2, "the third attempt repeats the DNS lookup"

    with asyncio.Runner(loop_factory=lambda: SlowNames([info(*here)])) as runner:
        runner.run(story())


def test_failed_dns_lookup_is_repeated(listening):
    async def story():
        loop: Any = asyncio.get_running_loop()
        loop.answered.set()
        for lookup_count in (1, 2):
            with pytest.raises(OSError, match="not found"):
                await connect_to("no.example", 9092, LIMIT_S)
            assert loop.lookups == lookup_count

    with asyncio.Runner(loop_factory=lambda: SlowNames(OSError(1, "not found"))) as runner:
        runner.run(story())
