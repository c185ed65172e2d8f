"""The client's engine: polls the sources, chooses node, connection and version, pairs answers, says when to wake.

It holds one connection per node and lane. A request to a node waits while its connection is being made; when the
connection fails, so do the requests that wait on it. A request to any node moves on to the next address instead, and
fails when every address has failed it.
"""

from __future__ import annotations

from collections.abc import Collection, MutableSequence, Sequence
from typing import Final

from kohort.client.metrics.counts import SampleWindows, TrafficMetrics
from kohort.client.requests.connections import ClientResponse, Connection, ConnectionState, PendingRequest
from kohort.client.requests.credentials import credentials_of
from kohort.client.requests.io import (
    Close,
    Closed,
    ConnectionId,
    FramesArrived,
    Input,
    Open,
    Opened,
    Output,
    Received,
    Send,
    TokenReady,
    WantToken,
)
from kohort.client.requests.lanes import (
    Addresses,
    Lane,
    Refusal,
    forget_those_that_left,
    least_loaded,
    told_of_loss,
    unreachable,
)
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.request_state import Backoff
from kohort.client.requests.source import ANY_NODE, RequestSource
from kohort.client.requests.troubles import Notes, Troubles
from kohort.clock import Rng, earliest
from kohort.config.client import ClientConfig
from kohort.errors import ApiError, ApiTimeout, AuthenticationFailed, ConnectionFailed, ErrorCode, KohortError, NotKafka
from kohort.wire.apis import api_of

DATA: Final = "data"
CONNECTION: Final = "connection"
NOWHERE_BYTES: Final = 4096
"""Room for what still comes on a connection that was given up."""
REFUSED_LONGEST: Final = 10
"""How many times as long as after a loss it may take until somebody who was not let in knocks again."""


class Engine:
    """The machine that every client is built around. ``troubles`` hears of connections that cannot be had."""

    def __init__(
        self,
        config: ClientConfig,
        sources: Sequence[RequestSource],
        metadata: Metadata,
        rng: Rng,
        troubles: Troubles | None = None,
    ) -> None:
        self.metadata = metadata
        self.wake_at_ms: int | None = None
        self.ever_connected = False
        self.config = config
        self._rng = rng
        self.credentials = credentials_of(config)
        self._sources: list[RequestSource] = [metadata, *sources]
        self.not_let_in: KohortError | None = None
        """Why nobody lets this client in, after every address was tried; None once somebody does."""
        self.addresses = Addresses(config.bootstrap, metadata)
        longest_ms = config.reconnect_backoff_max_ms
        self._backoff = Backoff(config.reconnect_backoff_ms, longest_ms, rng)
        self._refused_backoff = Backoff(longest_ms, REFUSED_LONGEST * longest_ms, rng)
        self._lanes: dict[tuple[int, str], Lane] = {}
        self._by_connection: dict[ConnectionId, Lane] = {}
        self._anywhere: list[PendingRequest] = []
        self._refused: dict[int, Refusal] = {}
        self._troubles = Troubles(Notes()) if troubles is None else troubles
        self.metrics = TrafficMetrics(SampleWindows.of(config))
        self._next_id = 1
        self._seen_version = metadata.version
        self._expires_at_ms: int | None = None
        """The nearest of what waits for an answer or a connection; None if nothing does."""
        self._told = False
        """A source heard of an answer or a failure since it was last polled: it may want something else now."""
        self._out: list[Output] = []

    @property
    def idle(self) -> bool:
        return not self._anywhere and not any(
            lane.waiting or (lane.connection is not None and lane.connection.load) for lane in self._lanes.values()
        )

    @property
    def is_connected(self) -> bool:
        return any(connection.state is ConnectionState.READY for connection in self.connections)

    @property
    def connections(self) -> list[Connection]:
        return [lane.connection for lane in list(self._lanes.values()) if lane.connection is not None]

    def handle(self, given: Input, now_ms: int) -> Sequence[Output]:
        match given:
            case Opened(connection):
                self._opened(connection, now_ms)
            case Received(connection, data):
                self._received(connection, data, now_ms)
            case FramesArrived(connection):
                self._received(connection, None, now_ms)
            case Closed():
                self._closed(given, now_ms)
            case TokenReady():
                self._log_in(given, now_ms)
        if self._expires_at_ms is not None and now_ms >= self._expires_at_ms:
            self._expire(now_ms)
        self._pump(now_ms)
        self._plan(now_ms)
        out, self._out = self._out, []
        return out

    def close(self, now_ms: int) -> Sequence[Output]:
        error = ConnectionFailed("the client was closed")
        for lane in list(self._lanes.values()):
            orphans = lane.waiting
            lane.waiting = []
            if lane.connection is not None:
                orphans = [*lane.connection.pending(), *orphans]
                self._end(lane, now_ms)
            self._fail(orphans, error, now_ms)
        anywhere, self._anywhere = self._anywhere, []
        self._fail(anywhere, error, now_ms)
        self.wake_at_ms = None
        out, self._out = self._out, []
        return out

    # What arrives

    def _opened(self, connection: ConnectionId, now_ms: int) -> None:
        lane = self._by_connection.get(connection)
        if lane is not None and lane.connection is not None:
            self.metrics.nodes[lane.node_id].opened.record(1, now_ms)
            self._write(lane.connection, lane.connection.opened(now_ms))

    def _closed(self, closed: Closed, now_ms: int) -> None:
        lane = self._by_connection.get(closed.connection)
        ended = None if lane is None else lane.connection
        if lane is None or ended is None:
            return
        if closed.is_refusal:
            self._lost(lane, closed.reason, now_ms, kind=AuthenticationFailed)
        else:
            unneeded = ended.state is ConnectionState.READY and not ended.load
            self._lost(lane, ended.ended(closed.reason), now_ms, quietly=unneeded)

    def room(self, connection_id: ConnectionId) -> memoryview:
        """Return where a socket's next bytes may be written, instead of handing them over in ``Received``."""
        connection = self._connection(connection_id)
        return memoryview(bytearray(NOWHERE_BYTES)) if connection is None else connection.room()

    def arrived(self, connection_id: ConnectionId, count: int) -> bool:
        """Note that so many bytes were written there; tell whether it is worth a ``FramesArrived``."""
        connection = self._connection(connection_id)
        return connection is not None and connection.arrived(count)

    def _connection(self, connection_id: ConnectionId) -> Connection | None:
        lane = self._by_connection.get(connection_id)
        return None if lane is None else lane.connection

    def _received(self, connection_id: ConnectionId, data: bytes | None, now_ms: int) -> None:
        lane = self._by_connection.get(connection_id)
        connection = lane.connection if lane is not None else None
        if lane is None or connection is None:
            return
        was = connection.state
        out, answers = connection.take_frames(now_ms) if data is None else connection.received(data, now_ms)
        self._write(connection, out)
        wanted = connection.take_wanted()
        if wanted is not None:
            self._out.append(WantToken(connection.id, connection.host, wanted.challenge))
        if connection.state is ConnectionState.READY:
            self._is_ready(lane, connection, was, now_ms)
        self._deliver(answers, now_ms)
        if connection.broken is not None:
            self._broken(lane, connection.broken, now_ms)
        if self.metadata.take_misplaced() and self.config.metadata_recovery_strategy.lower() != "none":
            self._begin_anew(now_ms)

    def _log_in(self, given: TokenReady, now_ms: int) -> None:
        lane = self._by_connection.get(given.connection)
        connection = lane.connection if lane is not None else None
        if lane is None or connection is None:
            return
        was = connection.state
        self._write(connection, connection.token(given.token, given.who, now_ms))
        if connection.broken is not None:
            self._broken(lane, connection.broken, now_ms)
        elif connection.state is ConnectionState.READY:
            self._is_ready(lane, connection, was, now_ms)

    def _is_ready(self, lane: Lane, connection: Connection, was: ConnectionState, now_ms: int) -> None:
        self.ever_connected = True
        self.not_let_in = None
        self.metadata.features = connection.features
        lane.failures = 0
        if was is not ConnectionState.READY:
            if self.credentials is not None:
                self.metrics.logins.record(1, now_ms)
            self._refused.pop(lane.node_id, None)
            self._troubles.mended((CONNECTION, connection.address), f"{connection.address} is connected again", now_ms)

    def _broken(self, lane: Lane, error: KohortError, now_ms: int) -> None:
        """Give up a connection whose bytes make no sense: the request they should have answered gets the error, the
        rest the loss."""
        assert lane.connection is not None
        if lane.connection.in_flight:
            self._fail([lane.connection.in_flight.popleft()], error, now_ms)
        self._end(lane, now_ms, keep=True)
        kind = type(error) if isinstance(error, NotKafka | AuthenticationFailed) else ConnectionFailed
        self._lost(lane, str(error), now_ms, kind=kind)
        if isinstance(error, ApiError) and error.code is ErrorCode.REBOOTSTRAP_REQUIRED:
            self._begin_anew(now_ms)

    def _begin_anew(self, now_ms: int) -> None:
        """Leave every node that metadata named, and ask the bootstrap addresses for others (KIP-1102)."""
        for lane in [lane for lane in self._lanes.values() if lane.node_id >= 0 and lane.connection is not None]:
            self._end(lane, now_ms, keep=True)
            self._lost(lane, "the client begins anew at its bootstrap addresses", now_ms, quietly=True)
        self.metadata.begin_anew()

    def _lost(
        self, lane: Lane, reason: str, now_ms: int, *, kind: type[KohortError] = ConnectionFailed, quietly: bool = False
    ) -> None:
        connection = lane.connection
        assert connection is not None
        if not quietly:
            told = told_of_loss(lane, connection, Refusal(reason, kind), self.addresses.bootstrap)
            self._troubles.report((CONNECTION, connection.address), told, now_ms)
        if kind is NotKafka and self.ever_connected:
            kind = ConnectionFailed  # rather an outage, with a proxy that tells
        self._forget(connection, now_ms)
        if kind is AuthenticationFailed:
            self.metrics.failed_logins.record(1, now_ms)
        lane.connection = None
        lane.failures += 1
        backoff = self._refused_backoff if kind is AuthenticationFailed else self._backoff
        lane.retry_at_ms = now_ms + backoff.delay_ms(lane.failures)
        orphans = [*connection.pending(), *lane.waiting]
        lane.waiting = []
        self._refused[lane.node_id] = Refusal(f"{connection.address} ({reason})", kind)
        if lane.node_id >= 0:
            self.metadata.request_refresh()
        fixed = [p for p in orphans if p.unsent.node_id != ANY_NODE or p.correlation_id >= 0]
        self._anywhere += [p for p in orphans if p.unsent.node_id == ANY_NODE and p.correlation_id < 0]
        for pending in self._anywhere:
            pending.tried |= {lane.node_id}
        who = f"node {lane.node_id} at {connection.address}" if lane.node_id >= 0 else connection.address
        self._fail(fixed, kind(f"{who}: {reason}"), now_ms)

    # Time

    def _expire(self, now_ms: int) -> None:
        for lane in list(self._lanes.values()):
            connection = lane.connection
            if lane.waiting:
                self._expire_waiting(lane.waiting, f"a connection to node {lane.node_id}", now_ms)
            if connection is None:
                continue
            if connection.queue:
                self._expire_waiting(connection.queue, f"its turn on the connection to {connection.address}", now_ms)
            if connection.is_unready and connection.deadline_ms <= now_ms:
                self._end(lane, now_ms, keep=True)
                self._lost(lane, connection.unfinished(self.config.socket_connection_setup_timeout_ms), now_ms)
            elif (stuck := connection.take_overdue(now_ms)) is not None:
                self._fail([stuck], self._timed_out(stuck, connection.awaited), now_ms)
                self._end(lane, now_ms, keep=True)
                self._lost(lane, "a request was not answered in time", now_ms)
            elif self._is_idle(connection, now_ms):
                self._end(lane, now_ms)
        self._expire_waiting(self._anywhere, "any broker", now_ms)

    def _expire_waiting(self, waiting: MutableSequence[PendingRequest], what: str, now_ms: int) -> None:
        for pending in [p for p in waiting if p.deadline_ms <= now_ms]:
            waiting.remove(pending)
            self._fail([pending], self._timed_out(pending, what), now_ms)

    def _timed_out(self, pending: PendingRequest, what: str) -> ApiTimeout:
        unsent = pending.unsent
        tried = self.told_of_addresses(unsent.timeout_ms)
        why = f"; failed so far: {tried}" if tried else ""
        return ApiTimeout(f"{api_of(unsent.request).name} waited {unsent.timeout_ms} ms for {what}{why}")

    def told_of_addresses(self, waited_ms: int) -> str:
        making = [c for c in self.connections if c.state is not ConnectionState.READY]
        unfinished = [f"{c.address} ({c.unfinished(waited_ms)})" for c in making]
        return "; ".join([*(refusal.text for refusal in self._refused.values()), *unfinished])

    def _is_idle(self, connection: Connection, now_ms: int) -> bool:
        idle_ms = self.config.connections_max_idle_ms
        quiet = connection.state is ConnectionState.READY and not connection.load
        return idle_ms >= 0 and quiet and connection.last_used_ms + idle_ms <= now_ms

    # What leaves

    def _pump(self, now_ms: int) -> None:
        moved = True
        wake_at_ms: int | None = None
        while moved or self._told:
            self._told = moved = False
            wake_at_ms = None
            refresh_was_pending = self.metadata.refresh_pending
            for index, source in enumerate(self._sources):
                poll = source.poll(now_ms)
                if poll.wake_at_ms is not None and (wake_at_ms is None or poll.wake_at_ms < wake_at_ms):
                    wake_at_ms = poll.wake_at_ms
                for unsent in poll.unsent:
                    moved = True
                    self._place(PendingRequest(unsent, index, now_ms + unsent.timeout_ms), now_ms)
            moved |= self.metadata.refresh_pending and not refresh_was_pending
            self._adopt_bootstrap()
            self._place_anywhere(now_ms)
            self._move_lanes(now_ms)
        self.wake_at_ms = wake_at_ms

    def _place(self, pending: PendingRequest, now_ms: int) -> None:
        node_id = pending.unsent.node_id
        if node_id == ANY_NODE:
            self._anywhere.append(pending)
        elif self.metadata.node(node_id) is None:
            self.metadata.request_refresh()
            self._fail([pending], ConnectionFailed(f"node {node_id} is not in the cluster's metadata"), now_ms)
        else:
            self._lane(node_id, pending.unsent.lane).waiting.append(pending)

    def _lane(self, node_id: int, name: str) -> Lane:
        lane = self._lanes.get((node_id, name))
        if lane is None:
            forget_those_that_left(self._lanes, self._refused, self.addresses)
            lane = self._lanes[node_id, name] = Lane(node_id, name)
        return lane

    def _move_lanes(self, now_ms: int) -> None:
        for lane in self._lanes.values():
            connection = lane.connection
            if lane.waiting:
                if connection is None and lane.retry_at_ms <= now_ms:
                    self._open(lane, now_ms)
                    connection = lane.connection
                if connection is not None and connection.state is ConnectionState.READY:
                    connection.queue.extend(lane.waiting)
                    lane.waiting = []
            if connection is None:
                continue
            if connection.queue:
                out, answers = connection.write_queued(now_ms)
                self._write(connection, out)
                self._deliver(answers, now_ms)

    def _place_anywhere(self, now_ms: int) -> None:
        if not self._anywhere:
            return
        lane = least_loaded(self._lanes.values(), DATA)
        if lane is not None:
            for pending in self._anywhere:
                # Whoever looks for a coordinator does not wait behind a fetch that waits.
                other = self._lane(lane.node_id, pending.unsent.lane) if lane.is_held else lane
                (lane if other.failures or other.is_held else other).waiting.append(pending)
            self._anywhere = []
            return
        candidates = self.addresses.candidates()
        hopeless = [p for p in self._anywhere if p.tried >= set(candidates)]
        if hopeless:
            self._anywhere = [p for p in self._anywhere if p not in hopeless]
            refusals = [self._refused[node_id] for node_id in candidates if node_id in self._refused]
            error = unreachable(refusals)
            self.not_let_in = error if isinstance(error, AuthenticationFailed) else None
            self._fail(hopeless, error, now_ms)
        if self._anywhere and not any(self._is_connecting(node_id) for node_id in candidates):
            lanes = [self._lane(node_id, DATA) for node_id in candidates]
            due = [lane for lane in lanes if lane.retry_at_ms <= now_ms]
            if due:
                tried = self._anywhere[0].tried
                self._open(min(due, key=lambda lane: (lane.node_id in tried, lane.failures)), now_ms)

    def _is_connecting(self, node_id: int) -> bool:
        lane = self._lanes.get((node_id, DATA))
        return lane is not None and lane.connection is not None

    def _adopt_bootstrap(self) -> None:
        """Take a bootstrap connection whose address metadata names as that node's data connection from then on."""
        if self._seen_version == self.metadata.version:
            return
        self._seen_version = self.metadata.version
        for node in self.metadata.nodes:
            stand_in = self.addresses.stand_in(node)
            lane = None if stand_in is None else self._lanes.get((stand_in, DATA))
            if lane is None or lane.connection is None or (node.node_id, DATA) in self._lanes:
                continue
            del self._lanes[lane.node_id, DATA]
            lane.node_id = node.node_id
            lane.connection.belong(node.node_id, self.metrics.nodes[node.node_id])
            self._lanes[node.node_id, DATA] = lane

    def _open(self, lane: Lane, now_ms: int) -> None:
        address = self.addresses.of(lane.node_id)
        if address is None:
            waiting, lane.waiting = lane.waiting, []
            self._fail(waiting, ConnectionFailed(f"node {lane.node_id} has left the cluster"), now_ms)
            return
        config = self.config
        lane.connection = Connection(
            self._next_id,
            address,
            client_id=config.client_id,
            max_bytes=config.receive_message_max_bytes,
            deadline_ms=now_ms + config.socket_connection_setup_timeout_ms,
            request_timeout_ms=config.request_timeout_ms,
        )
        lane.connection.belong(lane.node_id, self.metrics.nodes[lane.node_id])
        if config.metadata_cluster_check_enable and lane.node_id >= 0 and self.metadata.cluster_id is not None:
            lane.connection.mean(self.metadata.cluster_id, lane.node_id)
        if self.credentials is not None:
            lane.connection.log_in(self.credentials.mechanism, self.credentials.who, self._rng)
        self._next_id += 1
        self._by_connection[lane.connection.id] = lane
        self._out.append(Open(lane.connection.id, *address))

    def _end(self, lane: Lane, now_ms: int, *, keep: bool = False) -> None:
        assert lane.connection is not None
        self._out.append(Close(lane.connection.id))
        self._forget(lane.connection, now_ms)
        if not keep:
            lane.connection = None

    def _forget(self, connection: Connection, now_ms: int) -> None:
        lane = self._by_connection.pop(connection.id, None)
        if lane is not None and connection.state is not ConnectionState.CONNECTING:
            self.metrics.nodes[lane.node_id].closed.record(1, now_ms)

    def _write(self, connection: Connection, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        if buffers:
            self._out.append(Send(connection.id, buffers))

    def _deliver(self, answers: Sequence[ClientResponse], now_ms: int) -> None:
        for answer in answers:
            self._told = True
            source = self._sources[answer.pending.source]
            if isinstance(answer.response, KohortError):
                self.metrics.failed(type(answer.pending.unsent.request), answer.response)
                source.on_failure(answer.pending.unsent, answer.response, now_ms)
            else:
                source.on_response(answer.pending.unsent, answer.response, now_ms)

    def _fail(self, pendings: Sequence[PendingRequest], error: KohortError, now_ms: int) -> None:
        for pending in pendings:
            self._told = True
            self.metrics.failed(type(pending.unsent.request), error)
            self._sources[pending.source].on_failure(pending.unsent, error, now_ms)

    def _plan(self, now_ms: int) -> None:
        times: list[int] = []
        needed: Collection[int] = ()
        if self._anywhere:
            times = [p.deadline_ms for p in self._anywhere]
            needed = self.addresses.candidates()
            if any(self._is_connecting(node_id) for node_id in needed):
                needed = ()  # its end, either way, is an event of its own
        idle_ms = self.config.connections_max_idle_ms
        for lane in self._lanes.values():
            if lane.waiting:
                times += [p.deadline_ms for p in lane.waiting]
            if lane.connection is not None:
                at_ms = lane.connection.next_deadline_ms(now_ms, idle_ms)
                if at_ms is not None:
                    times.append(at_ms)
            elif lane.waiting or (lane.node_id in needed and lane.name == DATA):
                times.append(lane.retry_at_ms)
        self._expires_at_ms = min(times, default=None)
        self.wake_at_ms = earliest(self.wake_at_ms, self._expires_at_ms)
