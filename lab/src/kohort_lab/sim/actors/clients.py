"""Client actors: a real engine in a process that can freeze or die, and a producer."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from kohort.client.producer import ProducerMachine, record_metadata
from kohort.client.requests.credentials import Credentials, exchange_by_password
from kohort.client.requests.engine import Engine
from kohort.client.requests.io import (
    Close,
    Closed,
    ConnectionId,
    Input,
    Open,
    Opened,
    Received,
    RequestToken,
    Send,
    Tick,
    TokenReady,
)
from kohort.client.writing.produce_batch import ProduceBatch
from kohort.clock import Rng
from kohort.config.client import ProducerConfig
from kohort.errors import KohortError
from kohort.model import TopicPartition
from kohort.security.sasl.exchange import ClientExchange, Derivation
from kohort.security.sasl.scram import DerivedPasswords
from kohort.wire.record_batch import NewRecord
from kohort_lab.sim.run_context import RunContext


class PasswordLogins:
    """Answers each ``RequestToken`` of a client with password login."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._credentials: Credentials | None = None
        self._exchanges: dict[ConnectionId, ClientExchange] = {}
        self._derived = DerivedPasswords()

    def begin(self, credentials: Credentials | None) -> None:
        """Reset for a new process."""
        self._credentials = credentials
        self._exchanges.clear()

    def token(self, request: RequestToken) -> TokenReady:
        """Compute a token, or return the error of the broker's challenge."""
        assert self._credentials is not None, "it has nothing to log in with"
        try:
            token = self._next(self._credentials, request)
        except KohortError as error:
            return TokenReady(request.connection, error, self._credentials.identity)
        return TokenReady(request.connection, token, self._credentials.identity)

    def _next(self, credentials: Credentials, request: RequestToken) -> bytes | None:
        if request.challenge is None:
            exchange = exchange_by_password(credentials, self._rng, self._derived)
            self._exchanges[request.connection] = exchange
            return exchange.first()
        exchange = self._exchanges[request.connection]
        step = exchange.next(request.challenge)
        return exchange.derived(step.derive()) if isinstance(step, Derivation) else step


class EngineActor:
    """Client process: its engine on the simulated network."""

    def __init__(self, name: str, context: RunContext) -> None:
        self.name = name
        self.host = f"10.0.0.{1 + context.world.rng.randrange(0, 250)}"
        self.engine: Engine | None = None
        self.frozen_until_ms = 0
        self.rng: random.Random = context.world.fork_rng()
        self.world = context.world
        self.network = context.network
        self.history = context.history
        self._wake_at_ms: int | None = None
        self._queued: list[Input] = []
        self._offset_of_connections = 0
        self._logins = PasswordLogins(self.rng)

    @property
    def alive(self) -> bool:
        return self.engine is not None

    @property
    def frozen(self) -> bool:
        return self.world.now_ms < self.frozen_until_ms

    def run_engine(self, engine: Engine) -> None:
        assert self.engine is None, "it runs already"
        self.engine = engine
        self._offset_of_connections += 1_000_000  # connection ids must differ from those of the previous process
        self._logins.begin(engine.credentials)
        self.history.add(self.name, "started")
        self.step(Tick())

    def kill(self, why: str) -> None:
        """Kill the process without a clean close, as SIGKILL does."""
        if self.engine is None:
            return
        self.history.add(self.name, "killed", why)
        self.engine = None
        self._queued.clear()
        self.network.client_dies(self)

    def freeze(self, for_ms: int) -> None:
        """Freeze the process for a time; events wait."""
        if self.alive:
            self.history.add(self.name, "frozen", f"{for_ms} ms")
            self.frozen_until_ms = self.world.now_ms + for_ms
            self.world.after(for_ms, self._thaw)

    def _thaw(self) -> None:
        if self.frozen:
            return
        queued, self._queued = self._queued, []
        for event in queued:
            self.step(event)
        self.step(Tick())

    def link_opened(self, connection: int) -> None:
        self._arrive(Opened(connection - self._offset_of_connections), connection)

    def link_received(self, connection: int, data: bytes) -> None:
        self._arrive(Received(connection - self._offset_of_connections, data), connection)

    def link_closed(self, connection: int, reason: str) -> None:
        self._arrive(Closed(connection - self._offset_of_connections, reason), connection)

    def _arrive(self, event: Input, connection: int) -> None:
        if connection > self._offset_of_connections:
            self.step(event)

    def step(self, event: Input) -> None:
        """Pass an event to the engine, unless the process is frozen or dead."""
        if self.engine is None:
            return
        if self.frozen:
            if not isinstance(event, Tick):
                self._queued.append(event)
            return
        self._emit(self.engine.handle(event, self.world.now_ms))
        self.after_step()
        self._arm()

    def step_soon(self) -> None:
        """Schedule an engine tick, as the client's blocking API does after a call."""
        self.world.after(0, lambda: self.step(Tick()))

    def _emit(self, outputs: object) -> None:
        assert isinstance(outputs, list)
        for output in outputs:
            match output:
                case Open(connection=number, host=host, port=port):
                    self.network.open(self, number + self._offset_of_connections, (host, port))
                case Send(connection=number, buffers=buffers):
                    data = b"".join(buffers)
                    self.network.client_sends(self, number + self._offset_of_connections, data)
                case Close(connection=number):
                    self.network.client_closes(self, number + self._offset_of_connections)
                case RequestToken():
                    self._step_later(self._logins.token(output))

    def _step_later(self, event: Input) -> None:
        """Pass an event to the engine after the current one, unless the process has ended."""
        engine = self.engine
        self.world.after(0, lambda: self.step(event) if self.engine is engine else None)

    def after_step(self) -> None:
        """Run the user's code after each engine step."""

    def _arm(self) -> None:
        if self.engine is None or (at_ms := self.engine.wake_at_ms) is None:
            return
        at_ms = max(at_ms, self.world.now_ms)
        if self._wake_at_ms is None or at_ms < self._wake_at_ms:
            self._wake_at_ms = at_ms
            self.world.after(at_ms - self.world.now_ms, lambda: self._wake(at_ms))

    def _wake(self, at_ms: int) -> None:
        if self._wake_at_ms == at_ms:
            self._wake_at_ms = None
            self.step(Tick())


@dataclass(slots=True)
class SentRecord:
    """Record of a producer, in flight or completed."""

    batch: ProduceBatch
    index: int
    value: bytes


class ProducerActor(EngineActor):
    """Producer of numbered records; keeps the acknowledged offsets."""

    def __init__(self, name: str, context: RunContext, config: ProducerConfig) -> None:
        super().__init__(name, context)
        self._watcher = context.checks
        self.acknowledged: dict[bytes, tuple[TopicPartition, int]] = {}
        self.failed: list[bytes] = []
        self.target = 0
        self._config = config
        self._machine: ProducerMachine | None = None
        self._in_flight: list[SentRecord] = []
        self._sent = 0

    @property
    def done(self) -> bool:
        """True if all records are sent and completed."""
        return self._sent >= self.target and not self._in_flight

    def start(self, topics: list[str], records: int, every_ms: int) -> None:
        self.target = records
        self._machine = ProducerMachine(self._config, self.rng)
        self.run_engine(self._machine.engine)
        self._later(every_ms, lambda: self._send(topics, every_ms))

    def go_on(self, topics: list[str], records: int, every_ms: int) -> None:
        """Send more records, after all previous records were sent."""
        assert self._sent >= self.target, "it is still sending"
        self.target = self._sent + records
        self._later(every_ms, lambda: self._send(topics, every_ms))

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.world.after(delay_ms, action)

    def _send(self, topics: list[str], every_ms: int) -> None:
        machine = self._machine
        if machine is None or not self.alive or self._sent >= self.target:
            return
        topic = self.rng.choice(topics)
        try:
            count = machine.partitions(topic)
        except KohortError as error:
            self.history.add(self.name, "metadata refused", str(error))
            count = None
        if count is not None:
            value = b"%s:%d" % (self.name.encode(), self._sent)
            self._sent += 1
            partition = self.rng.randrange(0, count)
            now_ms = self.world.now_ms
            batch, index, _ = machine.add(topic, partition, NewRecord(None, value, (), now_ms), now_ms)
            self._in_flight.append(SentRecord(batch, index, value))
            self._watcher.sends(self.name, TopicPartition(topic, partition), value)
        self.step(Tick())
        self._later(every_ms, lambda: self._send(topics, every_ms))

    def after_step(self) -> None:
        waiting = []
        for sent in self._in_flight:
            if not sent.batch.done:
                waiting.append(sent)
                continue
            try:
                at = record_metadata(sent.batch, sent.index)
            except KohortError as error:
                self.failed.append(sent.value)
                self.history.add(self.name, "delivery failed", str(error))
                continue
            self.acknowledged[sent.value] = (TopicPartition(at.topic, at.partition), at.offset)
        self._in_flight = waiting
