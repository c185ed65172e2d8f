import asyncio

import pytest

pytest.importorskip("uvicorn", reason="the console's extra is not installed")

import uvicorn
from uvicorn.server import ServerState

from kohort.console.connections import (
    AT_ONCE,
    HEAD_S,
    PIECE,
    PIECE_S,
    AnswerBudget,
    ConsoleConnection,
    ConsoleLog,
    cut_overdue,
    in_pieces,
)

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class Wire(asyncio.Transport):
    """Transport of a connection whose client reads nothing."""

    def __init__(self):
        super().__init__()
        self.written, self.is_cut, self.closing = b"", False, False

    def write(self, data):
        self.written += data

    def get_write_buffer_size(self):
        return len(self.written)

    def is_closing(self):
        return self.closing

    def close(self):
        self.closing = True

    def abort(self):
        self.is_cut = True

    def pause_reading(self):
        pass

    resume_reading = pause_reading


async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * 100})


class Site:
    def __init__(self):
        self.config = uvicorn.Config(app, log_config=None, limit_concurrency=AT_ONCE, ws="none")
        self.config.load()
        self.state = ServerState()
        self.log = ConsoleLog()

    def connect(self):
        wire = Wire()
        one = ConsoleConnection(config=self.config, server_state=self.state, app_state={}, log=self.log)
        one.connection_made(wire)
        return one, wire

    def look(self, after_s):
        cut_overdue(self.state.connections, asyncio.get_running_loop().time() + after_s)


def test_unfinished_request_head_closes_connection_after_time_limit():
    async def story():
        site = Site()
        one, wire = site.connect()
        one.data_received(REQUEST[:20])
        site.look(0)
        one.data_received(REQUEST[20:21])  # one more byte does not extend the time limit
        site.look(HEAD_S - 0.5)
        assert not wire.is_cut
        site.look(HEAD_S + 0.5)
        assert wire.is_cut
        assert site.state.connections == set()

    asyncio.run(story())


def test_unread_answer_closes_connection_after_time_limit():
    async def story():
        site = Site()
        one, wire = site.connect()
        one.data_received(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        await asyncio.gather(*site.state.tasks)
        assert wire.closing
        site.look(0)
        site.look(PIECE_S - 0.5)
        assert not wire.is_cut
        site.look(PIECE_S + 0.5)
        assert wire.is_cut

    asyncio.run(story())


def test_connection_of_slow_client_stays_open():
    async def story():
        site = Site()
        one, wire = site.connect()
        one.data_received(REQUEST)
        for n in range(5):
            one.pause_writing()
            site.look(n * (PIECE_S - 0.5))
            one.resume_writing()
        assert not wire.is_cut
        one.pause_writing()
        site.look(5 * PIECE_S)
        site.look(6 * PIECE_S + 0.5)
        assert wire.is_cut
        one.resume_writing()

    asyncio.run(story())


def test_idle_connection_is_replaced_at_connection_limit():
    async def story():
        site = Site()
        all_of_them = [site.connect() for _ in range(AT_ONCE + 10)]
        assert sum(wire.is_cut for _, wire in all_of_them) == len(all_of_them) - (AT_ONCE - 1)
        assert all_of_them[0][1].is_cut
        assert not all_of_them[-1][1].is_cut
        last, wire = all_of_them[-1]
        last.data_received(REQUEST)
        await asyncio.gather(*site.state.tasks)
        assert wire.written.startswith(b"HTTP/1.1 200")

    asyncio.run(story())


def test_oldest_unread_answer_is_aborted_above_memory_budget():
    async def story():
        unread, ended = AnswerBudget(10 * PIECE), []

        async def answer(name, reader):
            async with unread.sending(4 * PIECE):
                await reader.wait()
                ended.append(name)

        reader = asyncio.Event()
        tasks = [asyncio.create_task(answer(name, reader)) for name in "abc"]
        await asyncio.sleep(0)
        await asyncio.wait(tasks[:1])
        assert (unread.size, ended) == (8 * PIECE, [])
        reader.set()
        await asyncio.gather(*tasks)
        assert (unread.size, ended) == (0, ["b", "c"])

    asyncio.run(story())


def test_answer_above_memory_budget_is_sent_alone():
    async def story():
        unread = AnswerBudget(2 * PIECE)
        async with unread.sending(5 * PIECE):
            assert unread.size == 5 * PIECE
        assert unread.size == 0

    asyncio.run(story())


def test_large_body_is_sent_in_pieces():
    sent = []

    async def send(message):
        sent.append((len(message.get("body", b"")), message.get("more_body")))

    async def story():
        await in_pieces(send)({"type": "http.response.start", "status": 200, "headers": []})
        await in_pieces(send)({"type": "http.response.body", "body": b"x" * (2 * PIECE + 1)})

    asyncio.run(story())
    assert sent == [(0, None), (PIECE, True), (PIECE, True), (1, False)]
