"""In-memory network between client engines and brokers, in one thread under a manual clock.

The loop exchanges bytes until no data is pending, then moves the clock to the next deadline of any machine. Nothing
sleeps; minutes take milliseconds. Tests can cut connections, refuse addresses and delay responses.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kohort.broker import io as broker_io
from kohort.client.requests import io as client_io
from kohort.client.requests.credentials import exchange_by_password
from kohort.client.requests.engine import Engine
from kohort.clock import ManualClock
from kohort.errors import KohortError
from kohort.security.sasl.exchange import ClientExchange, Derivation

Address = tuple[str, int]
STEPS_MOST: Final = 100_000
"""Limit of events without clock movement: more events mean an endless exchange of messages."""
TICKS_MOST: Final = 100
"""Limit of ticks in one moment: a tick of one node may make another node's tick due."""


class BrokerMachine(Protocol):
    @property
    def wake_at_ms(self) -> int | None: ...

    def handle(self, event: broker_io.Input, now_ms: int) -> Sequence[broker_io.Output]: ...


@dataclass(slots=True, eq=False)
class LoopLink:
    """Connection between an engine and a broker, with its id on each side."""

    engine: Engine
    client_id: int
    address: Address
    broker: BrokerMachine
    broker_id: int
    alive: bool = True


class Loop:
    """Network without delay."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.links: list[LoopLink] = []
        self.opened: list[Address] = []
        """Addresses of all connection attempts, in order."""
        self.holding_answers = False
        self._brokers: dict[Address, BrokerMachine] = {}
        self._engines: list[Engine] = []
        self._deaf: set[Address] = set()
        self._events: deque[Callable[[], None]] = deque()
        self._pending: list[tuple[LoopLink, bytes]] = []
        self._next_id = 1
        self._rng = random.Random(0)
        self.logins: dict[tuple[int, int], ClientExchange] = {}
        """Logins in flight, by engine and connection."""

    def serve(self, address: Address, broker: BrokerMachine) -> None:
        self._brokers[address] = broker
        self._deaf.discard(address)

    def add(self, engine: Engine) -> None:
        self._engines.append(engine)

    def cut(self, address: Address | None = None) -> None:
        """Break every connection (to ``address``) on both sides."""
        for link in [link for link in self.links if address in (None, link.address)]:
            self._end(link)
            self._pass_event(link.engine, client_io.Closed(link.client_id, "the connection was cut"))
            self._ask(link.broker, broker_io.Disconnected(link.broker_id))

    def stop(self, address: Address) -> None:
        """Refuse connections to ``address`` and break existing ones."""
        self._deaf.add(address)
        self.cut(address)

    def start(self, address: Address) -> None:
        """Accept connections to ``address`` again."""
        self._deaf.discard(address)

    def release_answers(self) -> None:
        self.holding_answers = False
        pending, self._pending = self._pending, []
        for link, data in pending:
            self._deliver(link, data)

    def settle(self) -> None:
        self._settle(self._engines)

    def _settle(self, engines: Iterable[Engine]) -> None:
        now_ms = self.clock.now_ms()
        for engine in engines:
            self._pass_event(engine, client_io.Tick())
        for _ in range(TICKS_MOST):
            due = [b for b in set(self._brokers.values()) if b.wake_at_ms is not None and b.wake_at_ms <= now_ms]
            for broker in due:
                self._ask(broker, broker_io.Tick())
            if not due and not self._events:
                break
            self._drain()

    def run(self, for_ms: int) -> None:
        end_ms = self.clock.now_ms() + for_ms
        self.settle()
        while self.clock.now_ms() < end_ms:
            now_ms = self._advance(end_ms)
            self._settle([x for x in self._engines if x.wake_at_ms is not None and x.wake_at_ms <= now_ms])

    def run_until(self, done: Callable[[], Any], limit_ms: int = 60_000) -> None:
        """Run until ``done()`` is true. Raises AssertionError after ``limit_ms`` of simulated time."""
        limit = self.clock.now_ms() + limit_ms
        self.settle()
        while not done():  # done() may send requests: settle before the next check
            assert self.clock.now_ms() < limit, f"not done after {limit_ms} ms"
            self._advance(limit)
            self.settle()

    def _advance(self, limit: int) -> int:
        now_ms = self.clock.now_ms()
        wakes = [engine.wake_at_ms for engine in self._engines]
        wakes += [broker.wake_at_ms for broker in self._brokers.values()]
        next_ms = min([limit, *(at_ms for at_ms in wakes if at_ms is not None)])
        assert next_ms > now_ms, "a machine asks to be woken again at once: it would never rest"
        self.clock.advance(next_ms - now_ms)
        return next_ms

    def _drain(self) -> None:
        steps = 0
        while self._events:
            self._events.popleft()()
            steps += 1
            assert steps < STEPS_MOST, "the machines never come to rest"

    def _pass_event(self, engine: Engine, event: client_io.Input) -> None:
        for output in engine.handle(event, self.clock.now_ms()):
            self._carry_out(engine, output)

    def close(self, engine: Engine) -> None:
        """Close a client and deliver its last requests."""
        for output in engine.close(self.clock.now_ms()):
            self._carry_out(engine, output)
        self._engines.remove(engine)
        self._drain()

    def _carry_out(self, engine: Engine, output: client_io.Output) -> None:
        match output:
            case client_io.Open(number, host, port):
                self._events.append(lambda: self._connect(engine, number, (host, port)))
            case client_io.Send(number, buffers):
                data = b"".join(bytes(buffer) for buffer in buffers)
                self._events.append(lambda: self._to_broker(engine, number, data))
            case client_io.RequestToken():
                self._events.append(lambda: self._log_in(engine, output))
            case client_io.Close(number):
                self.logins.pop((id(engine), number), None)
                self._events.append(lambda: self._hang_up(engine, number))

    def _log_in(self, engine: Engine, request: client_io.RequestToken) -> None:
        assert engine.credentials is not None, "only who has credentials logs in"
        key = (id(engine), request.connection)
        token: bytes | KohortError | None
        try:
            if request.challenge is None:
                exchange = self.logins[key] = exchange_by_password(engine.credentials, self._rng)
                token = exchange.first()
            else:
                exchange = self.logins[key]
                step = exchange.next(request.challenge)
                token = exchange.derived(step.derive()) if isinstance(step, Derivation) else step
        except KohortError as error:
            token = error
        self._pass_event(engine, client_io.TokenReady(request.connection, token, engine.credentials.identity))

    def _connect(self, engine: Engine, number: int, address: Address) -> None:
        self.opened.append(address)
        broker = self._brokers.get(address)
        if broker is None or address in self._deaf:
            self._pass_event(engine, client_io.Closed(number, "Connection refused"))
            return
        link = LoopLink(engine, number, address, broker, self._next_id)
        self._next_id += 1
        self.links.append(link)
        self._ask(broker, broker_io.Connected(link.broker_id, "10.0.0.1"))
        self._pass_event(engine, client_io.Opened(number))

    def _to_broker(self, engine: Engine, number: int, data: bytes) -> None:
        link = next((x for x in self.links if x.engine is engine and x.client_id == number), None)
        if link is not None:
            self._ask(link.broker, broker_io.Received(link.broker_id, data))

    def _hang_up(self, engine: Engine, number: int) -> None:
        link = next((x for x in self.links if x.engine is engine and x.client_id == number), None)
        if link is not None:
            self._end(link)
            self._ask(link.broker, broker_io.Disconnected(link.broker_id))

    def _ask(self, broker: BrokerMachine, event: broker_io.Input) -> None:
        for output in broker.handle(event, self.clock.now_ms()):
            if isinstance(output, broker_io.Send | broker_io.Close):
                link = next((x for x in self.links if x.broker is broker and x.broker_id == output.connection), None)
                if link is not None:
                    self._answer(link, output)

    def _answer(self, link: LoopLink, output: broker_io.Send | broker_io.Close) -> None:
        if isinstance(output, broker_io.Close):
            self._events.append(lambda: self._closed_by_broker(link))
            return
        data = b"".join(bytes(buffer) for buffer in output.buffers)
        if self.holding_answers:
            self._pending.append((link, data))
        else:
            self._deliver(link, data)

    def _deliver(self, link: LoopLink, data: bytes) -> None:
        def arrive() -> None:
            if link.alive:
                self._pass_event(link.engine, client_io.Received(link.client_id, data))

        self._events.append(arrive)

    def _closed_by_broker(self, link: LoopLink) -> None:
        if link.alive:
            self._end(link)
            self._pass_event(link.engine, client_io.Closed(link.client_id, "the broker closed the connection"))

    def _end(self, link: LoopLink) -> None:
        link.alive = False
        self.links.remove(link)
        self._pending = [(other, data) for other, data in self._pending if other is not link]
