"""State machine of one node, alone or in a cluster.

``handle`` takes one event and returns its effects. Requests of a connection are served one at a time and answered in
order. If an event completes requests of other connections (fetches woken by an append, members of a finished join), the
same call answers them. The broker never waits: ``wake_at_ms`` is the time of the next ``Tick`` that it needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from kohort.broker import io as events
from kohort.broker.apis.fetch import answer_after_wait
from kohort.broker.assembly import assemble
from kohort.broker.client_quotas import Throttling
from kohort.broker.cluster import nodes
from kohort.broker.cluster.cluster import ClusterNode
from kohort.broker.connections.connection import Connection, LoginStep
from kohort.broker.connections.open_connections import OpenConnections
from kohort.broker.connections.sending import AnswerSender, broken_off
from kohort.broker.dispatch import dispatch, serve, take_first_step
from kohort.broker.group_requests import release
from kohort.broker.long_work import LongWork, Task
from kohort.broker.purgatory import Parked
from kohort.broker.request import (
    Answer,
    Caller,
    CloseConnection,
    ConnectionId,
    Intercept,
    ReplyTo,
    Request,
    Unanswered,
    unencodable,
)
from kohort.broker.sasl_login import SaslLogin
from kohort.broker.state import BrokerState
from kohort.clock import Rng, earliest
from kohort.config.broker import BrokerConfig
from kohort.config.listeners import listener_config
from kohort.coordinator.records import TransactionEnded
from kohort.coordinator.runtime import CheckDecision
from kohort.errors import ProtocolError, StorageError
from kohort.log.storage import Storage
from kohort.notes import Note, debug, info, warning
from kohort.security.acls import user
from kohort.security.certificate_names import name_rules
from kohort.steps import Pace
from kohort.wire.codec import Buffer
from kohort.wire.headers import build_response
from kohort.wire.schema import Message

WARNED_MS: Final = 1_000
"""Minimum change of the wall clock, in ms, that is logged as a warning."""


class Broker:
    """One node with its topics, groups and connections."""

    def __init__(
        self,
        config: BrokerConfig,
        home: Storage | ClusterNode,
        rng: Rng,
        now_ms: int,
        *,
        check: CheckDecision | None = None,
        intercept: Intercept | None = None,
    ) -> None:
        """Recover the logs in ``home`` and load the groups.

        ``home`` may be a node of a cluster that has recovered the storage. ``check``: called after each decision of
        the group coordinator, for tests. ``intercept`` may answer requests before the broker.
        """
        self._state, self._journal = assemble(config, home, rng, now_ms, check=check, intercept=intercept)
        cluster, offsets_topic = self._state.cluster, self._state.offsets_topic
        self._inbox = cluster.inbox(self._state.node.node_id)
        self._connections = self._state.connections
        self._ready: deque[Connection] = deque()
        self._sender = AnswerSender(self._state.unread, self._state.counters)
        self._frame_budget = self._connections.frame_budget
        self._quotas, self._kept_quotas = self._state.quotas, cluster.quotas
        self._measured = self._quotas.in_flight
        self._counters = self._state.counters
        self._counts = self._counters.by_api
        self._throttling = Throttling(self._quotas, self._connections)
        self.long_work = LongWork(self._quotas, self._throttling, self._counters)
        offsets_topic.serve(self._state.coordinator, now_ms)
        found = [] if isinstance(home, ClusterNode) else [*cluster.topics.recovery_notes, *cluster.transactions.notes]
        self._notes: list[Note] = [*found, *offsets_topic.take_notes(), *self._state.logins.notes]
        self._write_journal(now_ms)

    # ------------------------------------------------------------ queries

    @property
    def state(self) -> BrokerState:
        return self._state

    @property
    def node(self) -> nodes.AdvertisedNode:
        return self._state.node

    @property
    def cluster_id(self) -> str:
        return self._state.topics.cluster_id

    @property
    def wake_at_ms(self) -> int | None:
        """Time in ms at which the broker needs the next Tick event; 0: at once, None: no Tick needed."""
        if self._sender.later or self._inbox or self.long_work or self._state.offsets_topic.is_loading:
            return 0
        return earliest(self._state.wake_at_ms, self._connections.wake_at_ms)

    def take_notes(self) -> list[Note]:
        notes, self._notes = self._notes, []
        return [*notes, *self._throttling.take_notes(), *self._state.take_notes()]

    def close(self, now_ms: int) -> None:
        """Flush and close the logs, unless a cluster owns them. Pass no event to the broker afterwards."""
        self._write_journal(now_ms, last=self._state.cluster.is_alone)
        if self._state.cluster.is_alone:
            self._notes.extend(warning(f"log not closed cleanly: {problem}") for problem in self._state.cluster.close())

    # ------------------------------------------------------------ events

    def handle(self, event: events.Input, now_ms: int) -> Sequence[events.Output]:
        """Process one event; return its effects in order."""
        out: list[events.Output] = []
        if self._inbox:  # process messages of other nodes before the event
            _handle_messages(self._state, self._inbox, now_ms)
        match event:
            case events.Received(connection=number, data=data):
                self._receive(number, data, now_ms, out)
            case events.Connected(connection=number, host=host, listener=listener, port=port):
                self._connect(number, Caller(host, listener, port=port), now_ms, out)
            case events.Secured(connection=number, name=name):
                self._secure(number, name, now_ms, out)
            case events.Disconnected(connection=number):
                self._disconnect(number, now_ms, out)
            case events.Congested(connection=number) | events.Drained(connection=number):
                self._set_congested(number, now_ms, out, congested=isinstance(event, events.Congested))
            case events.Tick() | events.EndWaits():
                self._tick(now_ms, out, end_waits=isinstance(event, events.EndWaits))
            case events.Stalled() | events.WallClockSet():
                self._notes += _adjust_clock(self._state, event, now_ms)
            case events.Serve(request=request):
                self._serve_intercepted(request, now_ms, out)
            case events.KeysFetched(url=url, content=content, problem=problem):
                self._notes.append(self._state.logins.keys_fetched(url, content, problem, now_ms))
                self._unmute(self._connections.unmute_awaiting_keys(), now_ms, out)
        # one read of a socket can cause several Congested events; send more only after the last of them
        for connection in () if isinstance(event, events.Congested) else self._sender.next_event():
            self._send_more(connection, now_ms, out)
        self._finish_event(now_ms, out)
        self._notes += self._state.coordinator.take_notes()
        _maybe_pause(self._connections, event, out)
        return out

    def _serve_intercepted(self, request: Request, now_ms: int, out: list[events.Output]) -> None:
        connection = self._connections.get(request.reply_to.connection)
        if connection is None or connection.in_flight != request.reply_to:
            return
        request.now_ms = now_ms
        self._quotas.work(connection.connection_id)
        try:
            answer = serve(self._state, request)
        except CloseConnection as close:
            self._close_connection(connection, close.note, now_ms, out)
        else:
            self._take(connection, request.reply_to, answer, now_ms, out)
            if connection.can_serve:
                self._ready.append(connection)

    def _connect(self, number: ConnectionId, caller: Caller, now_ms: int, out: list[events.Output]) -> None:
        if (refusal := self._connections.open(number, caller, now_ms)) is not None:
            out.append(events.Close(number, refusal))
            return
        connection = self._connections[number]
        if caller.listener in self._state.logins.by_listener:
            connection.begin_login(SaslLogin(self._state, caller, number))
        if connection.paused:
            out.append(events.Pause(number))

    def _secure(self, number: ConnectionId, name: str | None, now_ms: int, out: list[events.Output]) -> None:
        """Set the principal of a TLS certificate (protocol/security.md#names-in-certificates).

        Without a certificate, or with SASL, the principal does not change.
        """
        connection, state = self._connections.get(number), self._state
        listener = None if connection is None else state.listeners.get(connection.caller.listener)
        if connection is None or name is None or listener is None or listener.protocol.uses_sasl:
            return
        found = name_rules(listener_config(state.config, listener.name).ssl_principal_mapping_rules).name(name)
        if found is None:
            text = f"no rule of ssl.principal.mapping.rules matches the certificate of {name}"
            self._close_connection(connection, warning(text, "certificate"), now_ms, out)
        else:
            connection.caller = connection.caller._replace(principal=user(found))

    def _receive(self, number: ConnectionId, data: bytes, now_ms: int, out: list[events.Output]) -> None:
        connection = self._connections.get(number)
        if connection is None:
            return  # the broker closed the connection
        connection.active_ms = now_ms
        self._counters.bytes_in += len(data)
        try:
            completed = connection.receive(data)
        except ProtocolError as error:
            self._close_connection(connection, warning(connection.describe_error(error, data), "frame"), now_ms, out)
            return
        if completed:
            if number in self._frame_budget:
                self._free_memory(number, now_ms, out)
        elif not (connection.frames or connection.is_blocked):
            connection.awaits_memory = not self._frame_budget.ask(number, connection.reader.frame_bytes, now_ms)
        if connection.can_serve:
            self._ready.append(connection)

    def _free_memory(self, number: ConnectionId, now_ms: int, out: list[events.Output]) -> None:
        for let_in in self._frame_budget.free(number, now_ms):
            connection = self._connections[let_in]
            connection.awaits_memory = False
            _maybe_resume(connection, out)

    def _set_congested(self, number: ConnectionId, now_ms: int, out: list[events.Output], *, congested: bool) -> None:
        connection = self._connections.get(number)
        if connection is None:
            return
        connection.congested = congested
        if congested:
            self._sender.count(connection)
            self._close_slow_readers(now_ms, out)
            return
        connection.active_ms = now_ms
        connection.burst_bytes = 0
        self._send_more(connection, now_ms, out)

    def _send_more(self, connection: Connection, now_ms: int, out: list[events.Output]) -> None:
        if connection.closed:
            return
        try:
            self._sender.send_on(connection, out)
        except StorageError as error:
            self._close_connection(connection, broken_off(error), now_ms, out)
            return
        if connection.can_serve:
            self._ready.append(connection)
        _maybe_resume(connection, out)

    def _tick(self, now_ms: int, out: list[events.Output], *, end_waits: bool) -> None:
        state = self._state
        if end_waits:
            state.purgatory.wake_all()
            state.flushes.check_now()
        release(state, state.coordinator.tick(now_ms), now_ms)
        state.cluster.transactions.tick(now_ms)
        self._notes.extend(state.topics.tick(now_ms))
        self._step_long_work(now_ms, out)
        if state.offsets_topic.is_loading:
            release(state, state.offsets_topic.load_some(now_ms), now_ms)
            self._notes.extend(state.offsets_topic.take_notes())
        out.extend(events.FetchKeys(url) for url in state.logins.keys_to_fetch(now_ms))
        self._unmute(self._connections.unmute_due(now_ms), now_ms, out)
        for connection, why in self._connections.overdue(now_ms):
            self._close_connection(connection, why, now_ms, out)

    def _unmute(self, held_up: Iterable[Connection], now_ms: int, out: list[events.Output]) -> None:
        for connection in held_up:
            if connection.refused is not None:
                self._close_connection(connection, connection.refused, now_ms, out)
            elif connection.login is not None and (step := connection.login.resume(now_ms)) is not None:
                self._take_login(connection, step, now_ms, out)
            if connection.muted_until_ms is None:
                connection.active_ms = now_ms
                self._send_more(connection, now_ms, out)

    # ------------------------------------------------------------ effects of an event

    def _finish_event(self, now_ms: int, out: list[events.Output]) -> None:
        state = self._state
        purgatory, flushes = state.purgatory, state.flushes
        purgatory.wake_due(now_ms)
        while True:
            if state.released:
                released, state.released = state.released, []
                for reply in released:
                    reply_to = reply.to
                    assert isinstance(reply_to, ReplyTo)
                    self._answer(reply_to, reply.message, now_ms, out)
            elif purgatory.woken:
                for parked in purgatory.take_woken():
                    self._answer_woken_fetch(parked, now_ms, out)
            elif flushes.wake_at_ms is not None and (flushed := flushes.take_done(now_ms)):
                for reply_to, answer in flushed:
                    self._answer(reply_to, answer, now_ms, out)
            elif self._inbox:
                _handle_messages(self._state, self._inbox, now_ms)
            elif self._ready:
                self._serve(self._ready.popleft(), now_ms, out)
            elif not (self._write_journal(now_ms) or self._inbox):
                break

    def _serve(self, connection: Connection, now_ms: int, out: list[events.Output]) -> None:
        while connection.can_serve:
            if self._sender.must_wait(connection):
                return
            frame = connection.next_frame()
            connection.since_ns = self._counters.time_ns()
            if connection.login is not None and connection.login.takes(frame, now_ms):
                self._take_login(connection, connection.login.step(frame, now_ms), now_ms, out)
                if connection.closed or connection.is_blocked:
                    return
                continue
            if self._kept_quotas.any_on_requests:
                self._throttling.begin(connection, frame)
            try:
                reply_to, answer = dispatch(self._state, connection.connection_id, connection.caller, frame, now_ms)
            except CloseConnection as close:
                self._close_connection(connection, close.note, now_ms, out)
                return
            self._take(connection, reply_to, answer, now_ms, out)
            if self._state.released and (connection.frames or connection.paused):
                self._ready.append(connection)
                return  # send the group coordinator's responses before this connection's next request
        _maybe_resume(connection, out)

    def _take_login(self, connection: Connection, step: LoginStep, now_ms: int, out: list[events.Output]) -> None:
        if step.principal is not None:
            self._counters.logins += 1
            connection.caller = connection.caller._replace(principal=step.principal)
            connection.reader.max_bytes = self._state.config.socket_request_max_bytes
        if step.buffers:
            self._send_buffers(connection, step.buffers, now_ms, out)
        if step.closing is not None:
            self._close_connection(connection, step.closing, now_ms, out)
        elif step.wait_ms:
            self._connections.mute(connection, now_ms + step.wait_ms)

    def _take(
        self, connection: Connection, reply_to: ReplyTo, answer: Answer | Task, now_ms: int, out: list[events.Output]
    ) -> None:
        connection.in_flight = None
        if isinstance(answer, Message):
            self._send(connection, reply_to, answer, now_ms, out)
        elif answer is not Unanswered.NEVER:
            connection.in_flight = reply_to
            if self._measured:
                self._quotas.rest(reply_to.connection)
            if isinstance(answer, Task):
                self.long_work.add(answer)
        else:
            self._counts[reply_to.api_key].answered(self._counters.time_ns() - connection.since_ns, None)
            if self._measured:
                self._throttling.settle(reply_to, answer, now_ms)

    def _answer_woken_fetch(self, parked: Parked, now_ms: int, out: list[events.Output]) -> None:
        connection, request = self._connections.get(parked.reply_to.connection), parked.context.request
        if connection is None:
            return  # the client disconnected while its fetch waited
        request.now_ms = now_ms
        self._quotas.work(parked.reply_to.connection)
        answer = take_first_step(request, answer_after_wait(self._state, parked.context, Pace()))
        self._take(connection, parked.reply_to, answer, now_ms, out)
        if connection.in_flight is None:
            self._end_wait(connection, now_ms, out)

    def _step_long_work(self, now_ms: int, out: list[events.Output]) -> None:
        found = self.long_work.step(now_ms)
        self._close_slow_readers(now_ms, out)  # the unfinished response may exceed the limit of unread bytes
        if found is None:
            return
        reply_to, done = found
        connection = self._connections.get(reply_to.connection)
        if connection is None:
            self._state.purgatory.forget(reply_to.connection)  # the client disconnected: drop its waiting fetch
            self._state.amendments.pop(reply_to.connection, None)
        elif isinstance(done, CloseConnection):
            self._close_connection(connection, done.note, now_ms, out)
        elif done is not Unanswered.LATER:  # a delayed response is sent after its wait
            self._counts[reply_to.api_key].answered(self._counters.time_ns() - connection.since_ns, None)
            if not isinstance(done, Unanswered):
                self._send_buffers(connection, done, now_ms, out)
            self._end_wait(connection, now_ms, out)

    def _answer(self, reply_to: ReplyTo, message: Message, now_ms: int, out: list[events.Output]) -> None:
        connection = self._connections.get(reply_to.connection)
        if connection is None:
            return  # the client disconnected before the response was complete
        assert connection.in_flight == reply_to, f"{reply_to} is answered, {connection.in_flight} is in flight"
        if self._state.amendments and (amend := self._state.amendments.pop(reply_to.connection, None)) is not None:
            message = amend(message)
        self._send(connection, reply_to, message, now_ms, out)
        self._end_wait(connection, now_ms, out)

    def _end_wait(self, connection: Connection, now_ms: int, out: list[events.Output]) -> None:
        connection.in_flight = None
        connection.active_ms = now_ms
        if connection.can_serve:
            self._ready.append(connection)
        _maybe_resume(connection, out)

    def _send(
        self, connection: Connection, reply_to: ReplyTo, message: Message, now_ms: int, out: list[events.Output]
    ) -> None:
        """Send a response, or close the connection if the request's version cannot encode the response."""
        if self._measured:
            message = self._throttling.settle(reply_to, message, now_ms)
        self._counts[reply_to.api_key].answered(self._counters.time_ns() - connection.since_ns, message)
        try:
            buffers = build_response(reply_to.correlation_id, message, reply_to.version)
        except ProtocolError as error:
            self._close_connection(connection, unencodable(error).note, now_ms, out)
        else:
            self._send_buffers(connection, buffers, now_ms, out)

    def _send_buffers(
        self, connection: Connection, buffers: Sequence[Buffer], now_ms: int, out: list[events.Output]
    ) -> None:
        try:
            self._sender.send(connection, buffers, out)
        except StorageError as error:
            self._close_connection(connection, broken_off(error), now_ms, out)
        else:
            if connection.congested:
                self._close_slow_readers(now_ms, out)

    def _close_slow_readers(self, now_ms: int, out: list[events.Output]) -> None:
        """Close the connections with the oldest unread responses until the unread bytes fit into the limit."""
        while (number := self._state.unread.too_many()) is not None:
            text = "the client does not read its responses while unread responses exceed queued.max.request.bytes"
            self._close_connection(self._connections[number], warning(text, "unread"), now_ms, out)

    def _close_connection(self, connection: Connection, note: Note, now_ms: int, out: list[events.Output]) -> None:
        self._counters.connection_closed(note.kind)
        out.append(events.Close(connection.connection_id, note.about(connection.host), at_once=connection.congested))
        self._forget(connection.connection_id, now_ms, out)

    def _disconnect(self, number: ConnectionId, now_ms: int, out: list[events.Output]) -> None:
        connection = self._connections.get(number)
        if connection is not None and (size := connection.reader.pending_bytes):
            self._notes.append(info(f"disconnected after {size} bytes of a request", "torn").about(connection.host))
        self._forget(number, now_ms, out)

    def _forget(self, number: ConnectionId, now_ms: int, out: list[events.Output]) -> None:
        connection = self._connections.close(number)
        if connection is None:
            return
        state = self._state
        self._measured.pop(number, None)
        self._free_memory(number, now_ms, out)
        state.unread.set(number, 0)
        state.purgatory.forget(number)
        state.amendments.pop(number, None)
        state.client_metrics.forget_connection(number)
        state.coordinator.connection_closed(number, now_ms)

    def _write_journal(self, now_ms: int, *, last: bool = False) -> bool:
        entries = self._state.coordinator.take_journal()
        if entries or last:
            self._counters.journal_written(entries)
            self._notes.extend(self._journal.append(entries, now_ms, last=last))
        return bool(entries)


def _handle_messages(state: BrokerState, inbox: deque[nodes.NodeMessage], now_ms: int) -> None:
    messages = list(inbox)
    inbox.clear()
    for one in messages:
        match one:
            case nodes.BrokerOptionsChanged():
                state.reconfigure()
            case nodes.LeadersMoved(partitions=partitions):
                state.purgatory.changed(partitions)
                release(state, state.offsets_topic.follow(now_ms), now_ms)
            case nodes.TopicsRemoved(names=names, partitions=partitions):
                state.purgatory.changed(partitions)
                release(state, state.offsets_topic.load_rest(now_ms), now_ms)
                state.coordinator.topics_deleted(names, now_ms)
            case nodes.PartitionAppended(partition=partition, size=size):
                state.purgatory.appended(partition, size)
            case nodes.TransactionMarked(topic=topic, partition=partition):
                state.purgatory.changed([partition])
                if topic == state.offsets_topic.name:
                    ended = TransactionEnded(one.producer_id, one.committed)
                    state.coordinator.transaction_ended(partition[1], ended)


def _maybe_pause(connections: OpenConnections, event: events.Input, out: list[events.Output]) -> None:
    if isinstance(event, events.Received):
        connection = connections.get(event.connection)
        if connection is not None and connection.must_pause and not connection.paused:
            connection.paused = True
            out.append(events.Pause(event.connection))


def _maybe_resume(connection: Connection, out: list[events.Output]) -> None:
    if connection.paused and not (connection.closed or connection.must_pause):
        connection.paused = False
        out.append(events.Resume(connection.connection_id))


def _adjust_clock(state: BrokerState, event: events.Stalled | events.WallClockSet, now_ms: int) -> list[Note]:
    if isinstance(event, events.Stalled):
        state.coordinator.note_stall(event.since_ms, now_ms)
        return []
    wall = state.cluster.wall
    moved_ms, wall.ahead_ms = event.ahead_ms - wall.ahead_ms, event.ahead_ms
    way = "forward" if moved_ms > 0 else "back"
    text = f"the wall clock moved {way} by {abs(moved_ms) / 1000:.1f} s: record timestamps follow, timers do not"
    return [(warning if abs(moved_ms) >= WARNED_MS else debug)(text, "wall clock")]
