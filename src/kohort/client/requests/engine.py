"""The client's request engine: passes requests to connections, and responses back to the request sources.

The engine chooses node, connection and version of each request. It has one connection for each node and channel. A
request to a node waits for the connection, and fails with it. A request to any node tries the next address, and fails
when all addresses have failed.
"""

from __future__ import annotations

from collections.abc import Collection, MutableSequence, Sequence
from typing import Final

from kohort.client.metrics.counts import SampleWindows, TrafficMetrics
from kohort.client.requests import io
from kohort.client.requests.channels import (
    Addresses,
    Channel,
    ConnectionLoss,
    describe_loss,
    drop_idle_channels,
    least_loaded,
    unreachable,
)
from kohort.client.requests.connections import ClientResponse, Connection, ConnectionState, PendingRequest
from kohort.client.requests.credentials import credentials_of
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.outages import Notes, Outages
from kohort.client.requests.request_state import Backoff
from kohort.client.requests.source import ANY_NODE, RequestSource
from kohort.clock import Rng, earliest
from kohort.config.client import ClientConfig
from kohort.errors import ApiError, ApiTimeout, AuthenticationFailed, ConnectionFailed, ErrorCode, KohortError, NotKafka
from kohort.wire.apis import api_of

DATA: Final = "data"
CONNECTION: Final = "connection"
DISCARD_BYTES: Final = 4096
"""Size in bytes of the buffer for data that arrives after its connection was closed."""
LOGIN_BACKOFF_FACTOR: Final = 10
"""Back-off after a rejected login, as a multiple of the back-off after a lost connection."""


class Engine:
    """Core of every client, without I/O: routes requests to connections. It logs failing connections to ``outages``."""

    def __init__(
        self,
        config: ClientConfig,
        sources: Sequence[RequestSource],
        metadata: Metadata,
        rng: Rng,
        outages: Outages | None = None,
    ) -> None:
        self.metadata = metadata
        self.wake_at_ms: int | None = None
        self.ever_connected = False
        self.config = config
        self._rng = rng
        self.credentials = credentials_of(config)
        self._sources: list[RequestSource] = [metadata, *sources]
        self.login_error: KohortError | None = None
        """Last login error, if all broker addresses reject the login; None after a successful login."""
        self.addresses = Addresses(config.bootstrap, metadata)
        longest_ms = config.reconnect_backoff_max_ms
        self._backoff = Backoff(config.reconnect_backoff_ms, longest_ms, rng)
        self._login_backoff = Backoff(longest_ms, LOGIN_BACKOFF_FACTOR * longest_ms, rng)
        self._channels: dict[tuple[int, str], Channel] = {}
        self._by_connection: dict[io.ConnectionId, tuple[Channel, Connection]] = {}
        self._to_any_node: list[PendingRequest] = []
        self._losses: dict[int, ConnectionLoss] = {}
        self._outages = Outages(Notes()) if outages is None else outages
        self.metrics = TrafficMetrics(SampleWindows.of(config))
        self._next_id = 1
        self._seen_version = metadata.version
        self._expires_at_ms: int | None = None
        """Next deadline of a request, connection or login, in ms; None if nothing waits."""
        self._sources_changed = False
        """True if a request source got a response or an error since its last poll: it may have new requests."""
        self._out: list[io.Output] = []

    @property
    def idle(self) -> bool:
        return not self._to_any_node and not any(
            channel.waiting or (channel.connection is not None and channel.connection.load)
            for channel in self._channels.values()
        )

    @property
    def is_connected(self) -> bool:
        return any(connection.state is ConnectionState.READY for connection in self.connections)

    @property
    def connections(self) -> list[Connection]:
        return [channel.connection for channel in list(self._channels.values()) if channel.connection is not None]

    def handle(self, event: io.Input, now_ms: int) -> Sequence[io.Output]:
        match event:
            case io.Opened(connection):
                self._opened(connection, now_ms)
            case io.Received(connection, data):
                self._received(connection, data, now_ms)
            case io.FramesArrived(connection):
                self._received(connection, None, now_ms)
            case io.Closed():
                self._closed(event, now_ms)
            case io.TokenReady():
                self._log_in(event, now_ms)
        if self._expires_at_ms is not None and now_ms >= self._expires_at_ms:
            self._expire(now_ms)
        self._poll_sources(now_ms)
        self._plan_wake(now_ms)
        out, self._out = self._out, []
        return out

    def close(self, now_ms: int) -> Sequence[io.Output]:
        error = ConnectionFailed("the client was closed")
        for channel in list(self._channels.values()):
            orphans = channel.waiting
            channel.waiting = []
            if channel.connection is not None:
                orphans = [*channel.connection.pending(), *orphans]
                self._end(channel, now_ms)
            self._fail(orphans, error, now_ms)
        pendings, self._to_any_node = self._to_any_node, []
        self._fail(pendings, error, now_ms)
        self.wake_at_ms = None
        out, self._out = self._out, []
        return out

    def _opened(self, connection: io.ConnectionId, now_ms: int) -> None:
        found = self._by_connection.get(connection)
        if found is not None:
            channel, opened = found
            self.metrics.nodes[channel.node_id].opened.record(1, now_ms)
            self._write(opened, opened.opened(now_ms))

    def _closed(self, closed: io.Closed, now_ms: int) -> None:
        found = self._by_connection.get(closed.connection)
        if found is None:
            return
        channel, ended = found
        if closed.is_refusal:
            self._lost(channel, closed.reason, now_ms, kind=AuthenticationFailed)
        else:
            unneeded = ended.state is ConnectionState.READY and not ended.load
            self._lost(channel, ended.ended(closed.reason), now_ms, quietly=unneeded)

    def room(self, connection_id: io.ConnectionId) -> memoryview:
        """Return the buffer into which the connection's socket reads its next bytes."""
        found = self._by_connection.get(connection_id)
        return memoryview(bytearray(DISCARD_BYTES)) if found is None else found[1].room()

    def arrived(self, connection_id: io.ConnectionId, count: int) -> bool:
        """Process ``count`` bytes in the buffer from ``room()``.

        Returns True if they complete a response: the caller must then handle ``FramesArrived``.
        """
        found = self._by_connection.get(connection_id)
        return found is not None and found[1].arrived(count)

    def _received(self, connection_id: io.ConnectionId, data: bytes | None, now_ms: int) -> None:
        found = self._by_connection.get(connection_id)
        if found is None:
            return
        channel, connection = found
        was = connection.state
        out, answers = connection.take_frames(now_ms) if data is None else connection.received(data, now_ms)
        self._write(connection, out)
        challenge = connection.take_challenge()
        if challenge is not None:
            self._out.append(io.RequestToken(connection.id, connection.host, challenge.challenge))
        if connection.state is ConnectionState.READY:
            self._on_ready(channel, connection, was, now_ms)
        self._deliver(answers, now_ms)
        if connection.broken is not None:
            self._broken(channel, connection.broken, now_ms)
        if self.metadata.take_rebootstrap() and self.config.metadata_recovery_strategy.lower() != "none":
            self._rebootstrap(now_ms)

    def _log_in(self, event: io.TokenReady, now_ms: int) -> None:
        found = self._by_connection.get(event.connection)
        if found is None:
            return
        channel, connection = found
        was = connection.state
        self._write(connection, connection.token(event.token, event.identity, now_ms))
        if connection.broken is not None:
            self._broken(channel, connection.broken, now_ms)
        elif connection.state is ConnectionState.READY:
            self._on_ready(channel, connection, was, now_ms)

    def _on_ready(self, channel: Channel, connection: Connection, was: ConnectionState, now_ms: int) -> None:
        self.ever_connected = True
        self.login_error = None
        self.metadata.features = connection.features
        channel.failures = 0
        if was is not ConnectionState.READY:
            if self.credentials is not None:
                self.metrics.logins.record(1, now_ms)
            self._losses.pop(channel.node_id, None)
            address = connection.address
            self._outages.recovered((CONNECTION, address), f"{address} is connected again", now_ms)

    def _broken(self, channel: Channel, error: KohortError, now_ms: int) -> None:
        """Close a connection that received invalid bytes.

        The connection's oldest request fails with ``error``, and its other requests fail with ConnectionFailed.
        """
        assert channel.connection is not None
        if channel.connection.in_flight:
            self._fail([channel.connection.in_flight.popleft()], error, now_ms)
        self._end(channel, now_ms, keep=True)
        kind = type(error) if isinstance(error, NotKafka | AuthenticationFailed) else ConnectionFailed
        self._lost(channel, str(error), now_ms, kind=kind)
        if isinstance(error, ApiError) and error.code is ErrorCode.REBOOTSTRAP_REQUIRED:
            self._rebootstrap(now_ms)

    def _rebootstrap(self, now_ms: int) -> None:
        """Close the connections to all nodes, and request metadata from the bootstrap addresses (KIP-1102)."""
        for channel in list(self._channels.values()):
            if channel.node_id >= 0 and channel.connection is not None:
                self._end(channel, now_ms, keep=True)
                self._lost(channel, "the client restarts from its bootstrap addresses", now_ms, quietly=True)
        self.metadata.rebootstrap()

    def _lost(
        self,
        channel: Channel,
        reason: str,
        now_ms: int,
        *,
        kind: type[KohortError] = ConnectionFailed,
        quietly: bool = False,
    ) -> None:
        connection = channel.connection
        assert connection is not None
        if not quietly:
            text = describe_loss(channel, connection, ConnectionLoss(reason, kind), self.addresses.bootstrap)
            self._outages.report((CONNECTION, connection.address), text, now_ms)
        if kind is NotKafka and self.ever_connected:
            kind = (
                ConnectionFailed  # a Kafka broker answered at this address before: an HTTP response comes from a proxy
            )
        self._forget(connection, now_ms)
        if kind is AuthenticationFailed:
            self.metrics.failed_logins.record(1, now_ms)
        channel.connection = None
        channel.failures += 1
        backoff = self._login_backoff if kind is AuthenticationFailed else self._backoff
        channel.retry_at_ms = now_ms + backoff.delay_ms(channel.failures)
        orphans = [*connection.pending(), *channel.waiting]
        channel.waiting = []
        self._losses[channel.node_id] = ConnectionLoss(f"{connection.address} ({reason})", kind)
        if channel.node_id >= 0:
            self.metadata.request_refresh()
        fixed = [p for p in orphans if p.unsent.node_id != ANY_NODE or p.correlation_id >= 0]
        self._to_any_node += [p for p in orphans if p.unsent.node_id == ANY_NODE and p.correlation_id < 0]
        for pending in self._to_any_node:
            pending.tried |= {channel.node_id}
        node = f"node {channel.node_id} at {connection.address}" if channel.node_id >= 0 else connection.address
        self._fail(fixed, kind(f"{node}: {reason}"), now_ms)

    def _expire(self, now_ms: int) -> None:
        for channel in list(self._channels.values()):
            connection = channel.connection
            if channel.waiting:
                self._expire_waiting(channel.waiting, f"a connection to node {channel.node_id}", now_ms)
            if connection is None:
                continue
            if connection.queue:
                self._expire_waiting(connection.queue, f"a free slot on the connection to {connection.address}", now_ms)
            if connection.is_unready and connection.deadline_ms <= now_ms:
                self._end(channel, now_ms, keep=True)
                self._lost(channel, connection.unfinished(self.config.socket_connection_setup_timeout_ms), now_ms)
            elif (stuck := connection.take_overdue(now_ms)) is not None:
                self._fail([stuck], self._timed_out(stuck, connection.awaited), now_ms)
                self._end(channel, now_ms, keep=True)
                self._lost(channel, "a request was not answered in time", now_ms)
            elif self._is_idle(connection, now_ms):
                self._end(channel, now_ms)
        self._expire_waiting(self._to_any_node, "any broker", now_ms)

    def _expire_waiting(self, waiting: MutableSequence[PendingRequest], what: str, now_ms: int) -> None:
        for pending in [p for p in waiting if p.deadline_ms <= now_ms]:
            waiting.remove(pending)
            self._fail([pending], self._timed_out(pending, what), now_ms)

    def _timed_out(self, pending: PendingRequest, what: str) -> ApiTimeout:
        unsent = pending.unsent
        tried = self.describe_addresses(unsent.timeout_ms)
        why = f"; failed so far: {tried}" if tried else ""
        return ApiTimeout(f"{api_of(unsent.request).name} waited {unsent.timeout_ms} ms for {what}{why}")

    def describe_addresses(self, waited_ms: int) -> str:
        making = [c for c in self.connections if c.state is not ConnectionState.READY]
        unfinished = [f"{c.address} ({c.unfinished(waited_ms)})" for c in making]
        return "; ".join([*(loss.text for loss in self._losses.values()), *unfinished])

    def _is_idle(self, connection: Connection, now_ms: int) -> bool:
        idle_ms = self.config.connections_max_idle_ms
        quiet = connection.state is ConnectionState.READY and not connection.load
        return idle_ms >= 0 and quiet and connection.last_used_ms + idle_ms <= now_ms

    def _poll_sources(self, now_ms: int) -> None:
        moved = True
        wake_at_ms: int | None = None
        while moved or self._sources_changed:
            self._sources_changed = moved = False
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
            self._place_on_any_node(now_ms)
            self._move_channels(now_ms)
        self.wake_at_ms = wake_at_ms

    def _place(self, pending: PendingRequest, now_ms: int) -> None:
        node_id = pending.unsent.node_id
        if node_id == ANY_NODE:
            self._to_any_node.append(pending)
        elif self.metadata.node(node_id) is None:
            self.metadata.request_refresh()
            self._fail([pending], ConnectionFailed(f"node {node_id} is not in the cluster's metadata"), now_ms)
        else:
            self._channel(node_id, pending.unsent.channel).waiting.append(pending)

    def _channel(self, node_id: int, name: str) -> Channel:
        channel = self._channels.get((node_id, name))
        if channel is None:
            drop_idle_channels(self._channels, self._losses, self.addresses)
            channel = self._channels[node_id, name] = Channel(node_id, name)
        return channel

    def _move_channels(self, now_ms: int) -> None:
        for channel in self._channels.values():
            connection = channel.connection
            if channel.waiting:
                if connection is None and channel.retry_at_ms <= now_ms:
                    self._open(channel, now_ms)
                    connection = channel.connection
                if connection is not None and connection.state is ConnectionState.READY:
                    connection.queue.extend(channel.waiting)
                    channel.waiting = []
            if connection is not None and connection.queue:
                out, answers = connection.write_queued(now_ms)
                self._write(connection, out)
                self._deliver(answers, now_ms)

    def _place_on_any_node(self, now_ms: int) -> None:
        if not self._to_any_node:
            return
        channel = least_loaded(self._channels.values(), DATA)
        if channel is not None:
            for pending in self._to_any_node:
                # A coordinator lookup on the same connection would wait for a long-polling fetch.
                other = self._channel(channel.node_id, pending.unsent.channel) if channel.is_long_polling else channel
                (channel if other.failures or other.is_long_polling else other).waiting.append(pending)
            self._to_any_node = []
            return
        candidates = self.addresses.candidates()
        failed = [p for p in self._to_any_node if p.tried >= set(candidates)]
        if failed:
            self._to_any_node = [p for p in self._to_any_node if p not in failed]
            losses = [self._losses[node_id] for node_id in candidates if node_id in self._losses]
            error = unreachable(losses)
            self.login_error = error if isinstance(error, AuthenticationFailed) else None
            self._fail(failed, error, now_ms)
        if self._to_any_node and not any(self._is_connecting(node_id) for node_id in candidates):
            channels = [self._channel(node_id, DATA) for node_id in candidates]
            due = [channel for channel in channels if channel.retry_at_ms <= now_ms]
            if due:
                tried = self._to_any_node[0].tried
                self._open(min(due, key=lambda channel: (channel.node_id in tried, channel.failures)), now_ms)

    def _is_connecting(self, node_id: int) -> bool:
        channel = self._channels.get((node_id, DATA))
        return channel is not None and channel.connection is not None

    def _adopt_bootstrap(self) -> None:
        """Move the connection of a bootstrap address to the node that has this address in the metadata."""
        if self._seen_version == self.metadata.version:
            return
        self._seen_version = self.metadata.version
        for node in self.metadata.nodes:
            bootstrap_id = self.addresses.bootstrap_id(node)
            channel = None if bootstrap_id is None else self._channels.get((bootstrap_id, DATA))
            if channel is None or channel.connection is None or (node.node_id, DATA) in self._channels:
                continue
            del self._channels[channel.node_id, DATA]
            channel.node_id = node.node_id
            channel.connection.assign_node(node.node_id, self.metrics.nodes[node.node_id])
            self._channels[node.node_id, DATA] = channel

    def _open(self, channel: Channel, now_ms: int) -> None:
        address = self.addresses.of(channel.node_id)
        if address is None:
            waiting, channel.waiting = channel.waiting, []
            self._fail(waiting, ConnectionFailed(f"node {channel.node_id} has left the cluster"), now_ms)
            return
        config = self.config
        channel.connection = Connection(
            self._next_id,
            address,
            client_id=config.client_id,
            max_bytes=config.receive_message_max_bytes,
            deadline_ms=now_ms + config.socket_connection_setup_timeout_ms,
            request_timeout_ms=config.request_timeout_ms,
        )
        channel.connection.assign_node(channel.node_id, self.metrics.nodes[channel.node_id])
        if config.metadata_cluster_check_enable and channel.node_id >= 0 and self.metadata.cluster_id is not None:
            channel.connection.expect_node(self.metadata.cluster_id, channel.node_id)
        if self.credentials is not None:
            channel.connection.require_login(self.credentials.mechanism, self.credentials.identity, self._rng)
        self._next_id += 1
        self._by_connection[channel.connection.id] = (channel, channel.connection)
        self._out.append(io.Open(channel.connection.id, *address))

    def _end(self, channel: Channel, now_ms: int, *, keep: bool = False) -> None:
        assert channel.connection is not None
        self._out.append(io.Close(channel.connection.id))
        self._forget(channel.connection, now_ms)
        if not keep:
            channel.connection = None

    def _forget(self, connection: Connection, now_ms: int) -> None:
        found = self._by_connection.pop(connection.id, None)
        if found is not None and connection.state is not ConnectionState.CONNECTING:
            self.metrics.nodes[found[0].node_id].closed.record(1, now_ms)

    def _write(self, connection: Connection, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        if buffers:
            self._out.append(io.Send(connection.id, buffers))

    def _deliver(self, answers: Sequence[ClientResponse], now_ms: int) -> None:
        for answer in answers:
            if isinstance(answer.response, KohortError):
                self._fail([answer.pending], answer.response, now_ms)
            else:
                self._sources_changed = True
                self._sources[answer.pending.source].on_response(answer.pending.unsent, answer.response, now_ms)

    def _fail(self, pendings: Sequence[PendingRequest], error: KohortError, now_ms: int) -> None:
        for pending in pendings:
            self._sources_changed = True
            self.metrics.failed(type(pending.unsent.request), error)
            self._sources[pending.source].on_failure(pending.unsent, error, now_ms)

    def _plan_wake(self, now_ms: int) -> None:
        times: list[int] = []
        needed: Collection[int] = ()
        if self._to_any_node:
            times = [p.deadline_ms for p in self._to_any_node]
            needed = self.addresses.candidates()
            if any(self._is_connecting(node_id) for node_id in needed):
                needed = ()  # the engine wakes anyway when the connection opens or closes
        idle_ms = self.config.connections_max_idle_ms
        for channel in self._channels.values():
            if channel.waiting:
                times += [p.deadline_ms for p in channel.waiting]
            if channel.connection is not None:
                at_ms = channel.connection.next_deadline_ms(now_ms, idle_ms)
                if at_ms is not None:
                    times.append(at_ms)
            elif channel.waiting or (channel.node_id in needed and channel.name == DATA):
                times.append(channel.retry_at_ms)
        self._expires_at_ms = min(times, default=None)
        self.wake_at_ms = earliest(self.wake_at_ms, self._expires_at_ms)
