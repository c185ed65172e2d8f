"""A broker on sockets: pass bytes between connections and the broker's state machine, with one timer.

``Server.start`` binds the ports before it opens the data folder, so that a port in use is reported early; then it
recovers the data and serves. The server reads no requests from a connection while the broker pauses it (``Pause``), or
while the client does not read the responses. This bounds the memory of each connection.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

from kohort.aio.serving.broker_log import BrokerLog
from kohort.aio.serving.file_storage import FileStorage
from kohort.aio.serving.garbage import ShortCollections
from kohort.aio.serving.key_fetching import fetch_keys
from kohort.aio.serving.listening import BACKLOG, BoundListener, bind, is_reserved
from kohort.aio.serving.loop_stalls import StallDetector
from kohort.aio.system import SystemClock, system_rng
from kohort.aio.tls.contexts import tls_listener
from kohort.aio.tls.server_side import Served, TlsListener
from kohort.broker.broker import Broker
from kohort.broker.counters import Durations
from kohort.broker.io import (
    Close,
    Congested,
    Connected,
    Disconnected,
    Drained,
    FetchKeys,
    Input,
    Output,
    Pause,
    Received,
    Resume,
    Secured,
    Send,
    Stalled,
    Tick,
    WallClockSet,
)
from kohort.broker.request import ConnectionId, Intercept
from kohort.clock import Clock, earliest
from kohort.config.broker import BrokerConfig
from kohort.config.listeners import Listener, address_text
from kohort.log.storage import MemoryStorage, Storage
from kohort.model import Node
from kohort.notes import Note, warning

LOGGER: Final = logging.getLogger("kohort.server")

WRITE_HIGH_BYTES: Final = 1 << 16
LONGEST_SLEEP_MS: Final = 60_000
WALL_SET_MS: Final = 100
"""Smallest change of the wall clock, in ms, that the server passes to the broker.

Wall clock and monotonic clock are not read at the same instant, so smaller differences can be inaccurate reads.
"""


class Server:
    """Running server of one broker. Create it with ``await Server.start(...)``, end it with ``await server.stop()``."""

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        after_event: Callable[[], None] | None = None,
        broker_log: BrokerLog | None = None,
    ) -> None:
        self.broker = broker
        broker.state.counters.time_ns = time.perf_counter_ns
        self.flushes: Durations | None = None
        self._log = broker_log or BrokerLog(LOGGER)
        self._collections = ShortCollections()
        self._resources = ExitStack()
        self._clock = clock
        self._after_event = after_event
        self._loop = asyncio.get_running_loop()
        self._stalls = StallDetector(self._loop, clock.now_ms, self._check_clocks, broker.state.counters.late.add)
        self._servers: list[asyncio.Server] = []
        self._tls_listeners: list[TlsListener] = []
        self._peers: dict[ConnectionId, Peer] = {}
        self._dropping_response: set[ConnectionId] = set()
        self._congested: list[ConnectionId] = []
        """Connections whose clients do not read responses, and for which a Congested event is pending."""
        self._fetches: set[asyncio.Task[None]] = set()
        self._last_connection = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._stopped = False

    @classmethod
    async def start(
        cls,
        config: BrokerConfig,
        open_storage: Callable[[], AbstractContextManager[Storage]],
        *,
        clock: Clock | None = None,
        intercept: Intercept | None = None,
    ) -> Server:
        """Bind the broker's listeners, recover its data, and serve.

        Raises ConfigError for an unusable address, StorageError for unusable data, and DataDirInUse if another broker
        uses the data folder.
        """
        clock = clock or SystemClock()
        with ExitStack() as resources:
            bound = bind(config)
            resources.callback(bound.close)
            storage = resources.enter_context(open_storage())
            broker = Broker(bound.config, storage, system_rng(), clock.now_ms(), intercept=intercept)
            broker.state.quotas.thread_time_ns = time.thread_time_ns
            server = cls(broker, clock)
            server.flushes = flushes_of(storage)
            await server.listen(bound.listeners)
            server._resources = resources.pop_all()
        return server

    async def listen(self, listeners: Sequence[BoundListener]) -> None:
        self._log_notes()
        for listener, listening in listeners:
            accept = self.protocol_for(listener)
            self._servers.append(await self._loop.create_server(accept, sock=listening, backlog=BACKLOG))
        self.arm()

    def protocol_for(self, listener: Listener) -> Callable[[], asyncio.Protocol]:
        accept = partial(self._accept, listener.name)
        if not listener.protocol.uses_tls:
            return accept
        tls = tls_listener(self.broker.state.config, listener, self._log_note)
        self._tls_listeners.append(tls)
        return lambda: tls.serve(accept())

    @property
    def bootstrap(self) -> str:
        return address_of(self.broker.node.first)

    @property
    def addresses(self) -> Mapping[str, str]:
        return {name: address_of(node) for name, node in self.broker.node.at.items()}

    @property
    def cluster_id(self) -> str:
        return self.broker.cluster_id

    @property
    def failed_handshakes(self) -> int:
        return sum(tls.failed_handshakes for tls in self._tls_listeners)

    async def stop(self) -> None:
        self.end()

    def end(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        self._stalls.end()
        self._collections.end()
        if self._timer is not None:
            self._timer.cancel()
        for server in self._servers:
            server.close()
        for task in self._fetches:
            task.cancel()
        for peer in list(self._peers.values()):
            peer.transport.close()
        self._peers.clear()
        with self._resources:
            self.broker.close(self._clock.now_ms())
            self._log_notes()
            self._log.end()

    def _accept(self, listener: str) -> Peer:
        self._last_connection += 1
        return Peer(self, self._last_connection, listener)

    def opened(self, peer: Peer, host: str, port: int | None) -> None:
        if self._stopped:
            peer.transport.abort()
            return
        if is_reserved(peer.transport.get_extra_info("socket").fileno()):
            problem = "refused a connection: the last file handles are reserved for logs; raise the limit (ulimit -n)"
            self._log.write([warning(problem, "handles").about(host)], self._clock.now_ms())
            peer.transport.close()
            return
        self._peers[peer.connection] = peer
        self.pass_event(Connected(peer.connection, host, peer.listener, port))

    def lost(self, peer: Peer) -> None:
        self._dropping_response.discard(peer.connection)
        if self._peers.pop(peer.connection, None) is not None:
            self.pass_event(Disconnected(peer.connection))

    def pass_event(self, event: Input) -> None:
        """Pass an event to the broker and execute its outputs. An error closes only the event's connection."""
        if self._stopped:
            return
        self._check_clocks()
        try:
            outputs = self.broker.handle(event, self._clock.now_ms())
        except Exception as error:  # noqa: BLE001 - the other connections are served
            self._log.write_failure(
                f"internal error of the broker, on {type(event).__name__}", error, self._clock.now_ms()
            )
            self.abort_connection(getattr(event, "connection", -1))
            return
        self._execute(outputs)

    def _check_clocks(self) -> None:
        now_ms, ahead_ms = self._clock.now_ms(), self._clock.ahead_ms()
        if abs(ahead_ms - self.broker.state.cluster.wall.ahead_ms) >= WALL_SET_MS and not self._stopped:
            self._execute(self.broker.handle(WallClockSet(ahead_ms), now_ms))
        since_ms = self._stalls.stall_start_ms(now_ms)
        if since_ms is not None and not self._stopped:
            self._execute(self.broker.handle(Stalled(since_ms), now_ms))

    def abort_connection(self, connection: ConnectionId) -> bool:
        peer = self._peers.get(connection)
        if peer is not None:
            peer.transport.abort()
        return peer is not None

    def lose_answer(self, connection: ConnectionId) -> None:
        """Abort the connection instead of sending its next response (fault injection)."""
        self._dropping_response.add(connection)

    def _execute(self, outputs: Sequence[Output]) -> None:
        if outputs:
            self._do(outputs)
            self.pass_congested()
        self._log_notes()
        self.arm()
        self._collections.after_event(in_long_work=bool(self.broker.long_work))
        if self._after_event is not None:
            self._after_event()

    def pass_soon(self, event: Input) -> None:
        """Pass an event to the broker after its current event, because the broker's own output causes the new event."""
        self._loop.call_soon(self.pass_event, event)

    def congested(self, connection: ConnectionId) -> None:
        """Pass a Congested event to the broker after its current event: the client does not read its responses."""
        self._congested.append(connection)
        self._loop.call_soon(self.pass_congested)

    def pass_congested(self) -> None:
        while self._congested:
            self.pass_event(Congested(self._congested.pop()))

    async def _fetch_keys(self, url: str) -> None:
        self.pass_event(await fetch_keys(url))

    def _do(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if isinstance(output, FetchKeys):
                task = self._loop.create_task(self._fetch_keys(output.url))
                self._fetches.add(task)
                task.add_done_callback(self._fetches.discard)
            peer = self._peers.get(output.connection)
            if peer is None:
                continue
            match output:
                case Send(buffers=buffers):
                    if output.connection in self._dropping_response:
                        peer.transport.abort()
                    else:
                        peer.transport.writelines(buffers)
                case Close(note=note, at_once=at_once):
                    self._log.write([note.about("closed a connection")], self._clock.now_ms())
                    del self._peers[output.connection]
                    if at_once:
                        peer.transport.abort()
                    else:
                        peer.transport.close()
                case Pause():
                    peer.set_paused(by_broker=True)
                case Resume():
                    peer.set_paused(by_broker=False)

    def _log_note(self, note: Note) -> None:
        self._log.write([note], self._clock.now_ms())
        self.arm()

    def _log_notes(self) -> None:
        self._log.write(self.broker.take_notes(), self._clock.now_ms())

    def arm(self) -> None:
        """Set the broker's timer, or move it to an earlier time. Never postpone it: an early timer is cheap."""
        if self._stopped:
            return
        wake_at_ms = earliest(self.broker.wake_at_ms, self._log.wake_at_ms)
        if wake_at_ms is None:
            return
        now_ms = self._clock.now_ms()
        delay_ms = min(max(wake_at_ms - now_ms, 0), LONGEST_SLEEP_MS)
        if self._timer is not None:
            # keep an earlier timer, even if it is overdue: otherwise a busy event loop would postpone it repeatedly
            if self._timer_at_ms <= now_ms + delay_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = now_ms + delay_ms
        self._timer = self._loop.call_later(delay_ms / 1000, self._tick)

    def clock_moved(self) -> None:
        """Handle due timers now: a test has moved the clock forward."""
        self._stalls.restart()
        if self._timer is not None:
            self._timer.cancel()
        self._tick()

    def _tick(self) -> None:
        self._timer = None
        self.pass_event(Tick())
        self.arm()


class Peer(Served):
    __slots__ = ("_by_broker", "_by_peer", "_server", "connection", "listener", "transport")

    transport: Any  # asyncio's or uvloop's transport; connection_made() sets it before any other method is called

    def __init__(self, server: Server, connection: ConnectionId, listener: str) -> None:
        self._server = server
        self.connection = connection
        self.listener = listener
        self._by_broker = False
        self._by_peer = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        peer = transport.get_extra_info("peername")
        host, port = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else ("localhost", None)
        self._server.opened(self, host, port)

    def secured(self, name: str | None) -> None:
        self._server.pass_event(Secured(self.connection, name))

    def data_received(self, data: bytes) -> None:
        self._server.pass_event(Received(self.connection, bytes(data)))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._server.lost(self)

    def pause_writing(self) -> None:
        self._by_peer = True
        self._apply()
        self._server.congested(self.connection)

    def resume_writing(self) -> None:
        self._by_peer = False
        self._apply()
        self._server.pass_soon(Drained(self.connection))

    def set_paused(self, *, by_broker: bool) -> None:
        self._by_broker = by_broker
        self._apply()

    def _apply(self) -> None:
        if self.transport.is_closing():
            return
        if self._by_broker or self._by_peer:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()


def storage_in(data_dir: Path | None) -> Callable[[], AbstractContextManager[Storage]]:
    if data_dir is None:
        return lambda: nullcontext(MemoryStorage())
    return partial(FileStorage, data_dir)


def flushes_of(storage: Storage) -> Durations | None:
    return storage.flushes if isinstance(storage, FileStorage) else None


def address_of(node: Node) -> str:
    return address_text(node.host, node.port)
