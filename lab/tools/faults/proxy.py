"""A TCP proxy between clients and a broker with network faults: cut, silent, late, slow, garbled.

It runs on an event loop in its own thread; all methods are thread-safe.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

TO_BROKER: Final = "to broker"
TO_CLIENT: Final = "to client"
READ_BYTES: Final = 1 << 16
HEAD_BYTES: Final = 8
"""Length and correlation id at the start of every response."""
GARBLED_SHARE: Final = 0.3
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER that ends a connection with a reset."""


@dataclass
class Weather:
    """Faults of data and new connections."""

    silent: set[str] = field(default_factory=set)
    """Blocked directions. The data is kept and sent later, as TCP does after an outage."""
    delay_s: float = 0.0
    """Delay of each chunk."""
    piece_bytes: int = 0
    """Size limit of a write; 0: unlimited."""
    cut_after: tuple[int, int] | None = None
    """Reset a connection after a number of bytes to the client in this range."""
    garbled_heads: bool = False
    """Flip bits in the lengths and correlation ids of responses."""
    garbled: bool = False
    """Flip bits anywhere in data to the client, for TLS."""
    injected: bytes = b""
    """Bytes in place of the first response of each connection."""
    accept_after_s: float = 0.0
    """Delay before the first forwarded byte of a new connection."""
    backwards_s: float = 0.0
    """Time to collect new connections, which are then served in reverse order."""


class _Heads:
    """Finds the frame headers in one direction of a connection, and flips bits in some."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._head = bytearray()
        self._remaining = 0

    def follow(self, data: bytes, *, flip: bool) -> bytes:
        """Return the bytes to forward."""
        out = bytearray(data)
        at = 0
        while at < len(out):
            if self._remaining:
                step = min(self._remaining, len(out) - at)
                self._remaining -= step
                at += step
                continue
            self._head.append(out[at])
            if flip and self._rng.random() < GARBLED_SHARE / HEAD_BYTES:
                out[at] ^= 1 << self._rng.randrange(8)
            at += 1
            if len(self._head) == HEAD_BYTES:
                (length,) = struct.unpack_from(">i", self._head)
                self._remaining = max(length - (HEAD_BYTES - 4), 0)
                self._head.clear()
        return bytes(out)


class Proxy:
    """Listens on 127.0.0.1 and forwards to ``target``; a context manager."""

    def __init__(self, seed: int = 0, host: str = "127.0.0.1", port: int = 0) -> None:
        self.target = ("127.0.0.1", 0)
        self.weather = Weather()
        self._rng = random.Random(seed)
        self._listening = _listener(host, port)
        self.host = host
        self.port: int = self._listening.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faults-proxy", daemon=True)
        self._accepting: asyncio.Task[None] | None = None
        self._links: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._changed: asyncio.Event | None = None
        self._dead: list[socket.socket] = []
        self.connections = 0
        """Number of accepted connections."""

    # ------------------------------------------------------------ thread-safe methods

    def set(self, **changes: Any) -> None:
        """Change fields of Weather."""

        def change() -> None:
            for name, value in changes.items():
                setattr(self.weather, name, value)
            self._wake()

        self._call(change)

    def heal(self) -> None:
        """End all faults, and accept connections."""

        def change() -> None:
            self.weather = Weather()
            self._wake()

        self._call(change)
        self.open_door()

    def cut(self) -> None:
        """Reset every connection."""
        self._call(self._cut)

    def half_close(self) -> None:
        """Close the direction to the client of every connection; the other one stays open."""

        def end() -> None:
            for writers in self._links.values():
                with contextlib.suppress(OSError, RuntimeError):
                    writers[0].write_eof()

        self._call(end)

    def close_door(self) -> None:
        """Refuse new connections."""
        self._call(self._shut)

    def open_door(self) -> None:
        """Accept new connections again."""

        def back() -> None:
            for each in self._dead:
                each.close()
            self._dead.clear()
            if self._accepting is None:
                self._listening = _listener(self.host, self.port)
                self._begin()

        self._call(back)

    def be_dead(self) -> None:
        """Ignore new connections without a reset, like a missing host.

        A listener with a full queue is silent on Linux.
        """

        def die() -> None:
            self._shut()
            full = _listener(self.host, self.port, backlog=0)
            self._dead.append(full)
            for _ in range(3):
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex((self.host, self.port))
                self._dead.append(filler)

        self._call(die)

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._call(self._begin)
        return self

    def __exit__(self, *_: object) -> None:
        async def end() -> None:
            self._shut()
            self._cut()
            for each in self._dead:
                each.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    # ------------------------------------------------------------ on the event loop

    def _call(self, function: Callable[[], None]) -> None:
        async def run() -> None:
            function()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(10)

    def _begin(self) -> None:
        self._changed = self._changed or asyncio.Event()
        self._accepting = self._loop.create_task(self._accept(self._listening))

    def _shut(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
            self._loop.remove_reader(self._listening)
            self._listening.close()

    def _cut(self) -> None:
        for writers in list(self._links.values()):
            for writer in writers:
                _reset(writer)

    def _wake(self) -> None:
        assert self._changed is not None
        self._changed.set()
        self._changed = asyncio.Event()

    async def _accept(self, listening: socket.socket) -> None:
        waiting: list[socket.socket] = []
        while True:
            client, _ = await self._loop.sock_accept(listening)
            self.connections += 1
            if self.weather.backwards_s:
                waiting.append(client)
                if len(waiting) == 1:
                    self._loop.call_later(self.weather.backwards_s, self._serve_backwards, waiting)
            else:
                self._serve(client)

    def _serve_backwards(self, waiting: list[socket.socket]) -> None:
        while waiting:
            self._serve(waiting.pop())

    def _serve(self, client: socket.socket) -> None:
        task = self._loop.create_task(self._link(client))
        self._links[task] = []
        task.add_done_callback(lambda done: self._links.pop(done, None))

    async def _link(self, client: socket.socket) -> None:
        mine = asyncio.current_task()
        assert mine is not None
        await asyncio.sleep(self.weather.accept_after_s)
        reader, writer = await asyncio.open_connection(sock=client)
        self._links[mine] = [writer]
        try:
            behind_reader, behind_writer = await asyncio.open_connection(*self.target)
        except OSError:
            _reset(writer)
            return
        self._links[mine].append(behind_writer)
        await _both(
            self._pass_on(reader, behind_writer, TO_BROKER),
            self._pass_on(behind_reader, writer, TO_CLIENT),
        )
        for each in (writer, behind_writer):
            each.close()

    async def _pass_on(self, source: asyncio.StreamReader, to: asyncio.StreamWriter, way: str) -> None:
        heads, passed, cut_at = _Heads(self._rng), 0, -1
        with contextlib.suppress(OSError):
            while data := await source.read(READ_BYTES):
                while way in self.weather.silent:
                    assert self._changed is not None
                    await self._changed.wait()
                weather = self.weather
                if weather.delay_s:
                    await asyncio.sleep(weather.delay_s)
                if way == TO_CLIENT:
                    if weather.injected:
                        to.write(weather.injected)
                        await to.drain()
                        break
                    data = heads.follow(data, flip=weather.garbled_heads)
                    if weather.garbled:
                        data = self._flipped(data)
                    if weather.cut_after is not None:
                        cut_at = self._rng.randint(*weather.cut_after) if cut_at < 0 else cut_at
                        if passed + len(data) >= cut_at:
                            to.write(data[: max(cut_at - passed, 0)])
                            await to.drain()
                            _reset(to)
                            return
                    passed = passed + len(data) if weather.cut_after is not None else 0
                await self._write(to, data)
            to.write_eof()

    async def _write(self, to: asyncio.StreamWriter, data: bytes) -> None:
        size = self.weather.piece_bytes or len(data)
        for at in range(0, len(data), size):
            to.write(data[at : at + size])
            await to.drain()
            if self.weather.piece_bytes:
                await asyncio.sleep(0)

    def _flipped(self, data: bytes) -> bytes:
        at = self._rng.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << self._rng.randrange(8)]) + data[at + 1 :]


def _listener(host: str, port: int, backlog: int = 100) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, port))
    listening.listen(backlog)
    listening.setblocking(False)
    return listening


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


async def _both(*ways: Coroutine[Any, Any, None]) -> None:
    await asyncio.gather(*ways, return_exceptions=True)
