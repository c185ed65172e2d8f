"""A real broker for tests, with a movable clock and scripted faults::

    with StagedBroker() as broker:
        broker.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=2)
        ...
        broker.advance(46_000)  # every session times out

It works with any Kafka client. APIs and error codes have Kafka's names (``JoinGroup``). Calls block briefly and may
come from any thread; inside ``async with`` they come from the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from kohort.aio.serving.cluster_server import ClusterServer, start_brokers
from kohort.aio.serving.embedded import Broker
from kohort.aio.serving.server import Server
from kohort.aio.system import SystemClock
from kohort.broker.io import EndWaits, Serve
from kohort.broker.request import ConnectionId
from kohort.client.user_input import checked_ms
from kohort.errors import ApiTimeout, ErrorCode, UsageError
from kohort.secret import Secret
from kohort.testing.script import Hold, Rule, Script, SeenRequest, code_of

if TYPE_CHECKING:
    from kohort.aio.option_types import BrokerOptions


class MovableClock:
    """Milliseconds since 1970 that never go back. A ``frozen`` clock moves only with ``advance``."""

    def __init__(self, *, frozen: bool = False) -> None:
        self._system = SystemClock()
        self._frozen_at_ms = self._system.now_ms() if frozen else None
        self._ahead_ms = 0

    @property
    def is_frozen(self) -> bool:
        return self._frozen_at_ms is not None

    def now_ms(self) -> int:
        return self._ahead_ms + (self._system.now_ms() if self._frozen_at_ms is None else self._frozen_at_ms)

    def ahead_ms(self) -> int:
        """Return the change of the wall clock since the start; 0 if frozen."""
        return self._system.ahead_ms() if self._frozen_at_ms is None else 0

    def advance(self, ms: int) -> None:
        """Move the clock forward by ``ms``. Raises UsageError for a negative number."""
        self._ahead_ms += checked_ms("advance: ms", ms)


WAIT_MS: Final = 30_000
LONG_POLL_S: Final = 0.1
"""Longest real time of a waiting fetch on a broker with a frozen clock, in seconds."""


class HeldRequests:
    """Requests that ``StagedBroker.hold`` keeps waiting. A context manager, which releases them at the end."""

    def __init__(self, broker: StagedBroker, hold: Hold) -> None:
        self._broker = broker
        self._hold = hold

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        return len(self._hold.kept)

    def release(self) -> int:
        """Serve the waiting requests in order, and let later requests pass. Return the number of served requests."""
        return self._broker._on_loop(self._broker._serve_held, self._hold)  # both classes belong together

    def __enter__(self) -> HeldRequests:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class StagedBroker(Broker):
    """A ``kohort.Broker`` for tests, with a movable clock and scripted faults.

    It takes the arguments of ``kohort.Broker``, and ``frozen``: then time moves only with ``advance``, so no session
    expires unexpectedly.

    ``fail``, ``hang_up``, ``lose_answer`` and ``hold`` take an API name (``"OffsetCommit"``); ``times``, the number of
    affected requests (None: unlimited, until ``heal``); and ``client_id``, to affect only that client. The first
    matching rule decides. They return a ``Rule`` with counters (``hold``: ``HeldRequests``), and raise UsageError for
    an unknown API.
    """

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        *,
        frozen: bool = False,
        nodes: int = 1,
        data_dir: str | Path | None = None,
        listen: str | None = None,
        users: Mapping[str, str | Secret] | None = None,
        **words: Unpack[BrokerOptions],
    ) -> None:
        super().__init__(options, nodes=nodes, data_dir=data_dir, listen=listen, users=users, **words)
        self._clock = MovableClock(frozen=frozen)
        self._next_end: asyncio.TimerHandle | None = None
        self._script = Script(self._lose_answer)

    async def _serve(self) -> Server | ClusterServer:
        served = await start_brokers(
            self._config, self._nodes, self._data_dir, clock=self._clock, intercept=self._script.intercept
        )
        if self._clock.is_frozen:
            self._end_waits(served)
        return served

    def _end_waits(self, served: Server | ClusterServer) -> None:
        """Complete parked fetches: with a frozen clock no fetch would ever time out."""
        for server in _servers_of(served).values():
            server.pass_event(EndWaits())
        self._next_end = asyncio.get_running_loop().call_later(LONG_POLL_S, self._end_waits, served)

    async def __aexit__(self, *details: object) -> None:
        if self._next_end is not None:
            self._next_end.cancel()
        await super().__aexit__(*details)

    def advance(self, ms: int) -> None:
        """Move the broker's clock forward by ``ms``; due timers (sessions, rebalances, retention) fire immediately.

        The clients' clocks do not move: to the broker, all clients were silent for that time. Raises UsageError for a
        negative number or a fraction.
        """
        self._clock.advance(ms)
        for server in self._servers.values():
            self._on_loop(server.clock_moved)

    def now_ms(self) -> int:
        """Return the broker's time, in ms since 1970."""
        return self._clock.now_ms()

    def fail(
        self, api: str, error: ErrorCode | str | int, *, times: int | None = 1, client_id: str | None = None
    ) -> Rule:
        """Answer the next requests of an API with an error code, without processing them.

        ``error`` is a code, its name or its number. Metadata requests of all topics have no error field before version
        13: their connection is closed. Raises UsageError for an unknown API or code.
        """
        return self._on_loop(self._script.fail, api, code_of(error), times, client_id)

    def hang_up(self, api: str, *, times: int | None = 1, client_id: str | None = None) -> Rule:
        """Close the connection of the next requests of an API, without processing them.

        Raises UsageError for an unknown API.
        """
        return self._on_loop(self._script.hang_up, api, times, client_id)

    def lose_answer(self, api: str, *, times: int | None = 1, client_id: str | None = None) -> Rule:
        """Process the next requests of an API, but close their connection instead of sending the responses.

        Raises UsageError for an unknown API.
        """
        return self._on_loop(self._script.lose, api, times, client_id)

    def hold(self, api: str, *, times: int | None = None, client_id: str | None = None) -> HeldRequests:
        """Let the next requests of an API wait until ``release`` of the returned object.

        Raises UsageError for an unknown API.
        """
        return HeldRequests(self, self._on_loop(self._script.hold, api, times, client_id))

    def heal(self) -> None:
        """Remove all rules of ``fail``, ``hang_up``, ``lose_answer`` and ``hold``; waiting requests keep waiting."""
        self._on_loop(self._script.drop)

    def disconnect(self, client_id: str | None = None) -> int:
        """Close the connections of a client, or of all clients with requests. Return their number."""
        return self._on_loop(self._close_connections, client_id)

    def requests(self, api: str | None = None, *, client_id: str | None = None) -> list[SeenRequest]:
        """Return the received requests in order, at most the last 10,000, of one API or of all.

        Raises UsageError for an unknown API.
        """
        return self._on_loop(self._script.requests, api, client_id)

    def wait_for(
        self, api: str, *, count: int = 1, client_id: str | None = None, timeout_ms: int = WAIT_MS
    ) -> list[SeenRequest]:
        """Wait until ``count`` requests have arrived since the start or ``forget_requests``, and return them.

        Raises ApiTimeout after ``timeout_ms``, and UsageError for an unknown API, and inside ``async with``: use
        ``arrived`` there.
        """
        if self._loop is None:
            raise UsageError("wait_for() would block the broker's event loop: await arrived()")
        limit_ms = checked_ms("timeout_ms", timeout_ms)
        done = self._on_loop(self._script.await_requests, api, count, client_id)
        try:
            return done.result(limit_ms / 1000)
        except TimeoutError:
            raise self._too_late(done, api, count, limit_ms) from None

    async def arrived(
        self, api: str, *, count: int = 1, client_id: str | None = None, timeout_ms: int = WAIT_MS
    ) -> list[SeenRequest]:
        """Wait as ``wait_for``, inside ``async with``. Raises ApiTimeout after ``timeout_ms``, and UsageError."""
        limit_ms = checked_ms("timeout_ms", timeout_ms)
        done = self._script.await_requests(api, count, client_id)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(done), limit_ms / 1000)
        except TimeoutError:
            raise self._too_late(done, api, count, limit_ms) from None

    def forget_requests(self) -> None:
        """Clear the list of received requests, for ``requests`` and ``wait_for``."""
        self._on_loop(self._script.seen.clear)

    @property
    def _servers(self) -> dict[int, Server]:
        return _servers_of(self._running())

    def _lose_answer(self, node_id: int, connection: ConnectionId) -> None:
        self._servers[node_id].lose_answer(connection)

    def _close_connections(self, client_id: str | None) -> int:
        connections = {(one.node_id, one.connection) for one in self._script.requests(None, client_id)}
        servers = self._servers
        return sum(
            servers[node_id].abort_connection(connection) for node_id, connection in connections if node_id in servers
        )

    def _serve_held(self, hold: Hold) -> int:
        self._script.drop(hold.rule)
        kept, hold.kept = hold.kept, []
        for node_id, request in kept:
            if (server := self._servers.get(node_id)) is not None:
                server.pass_event(Serve(request))
        return len(kept)

    def _too_late(self, done: Future[list[SeenRequest]], api: str, count: int, timeout_ms: int) -> ApiTimeout:
        done.cancel()
        return ApiTimeout(f"{len(self.requests(api))} of {count} {api} requests arrived within {timeout_ms} ms")


def _servers_of(served: Server | ClusterServer) -> dict[int, Server]:
    return dict(served.servers) if isinstance(served, ClusterServer) else {served.broker.node.node_id: served}
