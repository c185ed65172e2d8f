"""Processor actor: consumes, and produces copies in transactions that include its offsets (KIP-447).

One process has both clients; both freeze and die together. The user's code is a generator that yields promises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from kohort.client.producer import ProducerMachine
from kohort.client.requests.io import Tick
from kohort.client.requests.source import Promise
from kohort.config.client import ConsumerConfig, ProducerConfig
from kohort.errors import KohortError, TransactionFailed
from kohort.model import GroupMetadata, OffsetAndMetadata, Record, TopicPartition
from kohort.wire.record_batch import NewRecord
from kohort_lab.sim.actors.clients import EngineActor
from kohort_lab.sim.actors.consumers import ConsumerActor
from kohort_lab.sim.run_context import RunContext

LOOK_AGAIN_MS: Final = 20
Work = Iterator[Promise[None] | None]
"""User's code as a generator: it resumes when the yielded promise is done, or after a pause if it yields None."""


class TransactionalActor(EngineActor):
    """Producer of a processor, with the user's code that waits for it."""

    def __init__(
        self, name: str, context: RunContext, config: ProducerConfig, fails: Callable[[KohortError], None]
    ) -> None:
        super().__init__(name, context)
        self.machine: ProducerMachine | None = None
        self._config = config
        self._fails = fails
        self._work: Work | None = None
        self._awaited: Promise[None] | None = None

    def start(self) -> None:
        self.machine = ProducerMachine(self._config, self.rng)
        self._work = self._awaited = None
        self.run_engine(self.machine.engine)

    def kill(self, why: str) -> None:
        super().kill(why)
        self.machine = self._work = self._awaited = None

    @property
    def works(self) -> bool:
        return self._work is not None

    def do(self, work: Work) -> None:
        """Start the user's code, or continue with it after the step in flight."""
        self._work = work if self._work is None else chain(self._work, work)
        self.step_soon()

    def after_step(self) -> None:
        while self._work is not None and (self._awaited is None or self._awaited.done):
            try:
                self._awaited = next(self._work)
            except StopIteration:
                self._work = self._awaited = None
            except KohortError as failure:
                self._work = self._awaited = None
                self._fails(failure)
                return
            if self._work is not None:  # the blocking API also ticks the engine here
                self.world.after(0 if self._awaited is not None else LOOK_AGAIN_MS, lambda: self.step(Tick()))
            if self._awaited is None:
                return


class Processor(ConsumerActor):
    """Processor that copies each record of its group's topics to another topic."""

    def __init__(
        self,
        name: str,
        context: RunContext,
        config: ConsumerConfig,
        topics: list[str],
        *,
        producing: ProducerConfig,
        output: str,
    ) -> None:
        super().__init__(name, context, config, topics)
        self.producer = TransactionalActor(f"{name}'s producer", context, producing, self._fail)
        self.aborts = 0.15
        """Probability that the user aborts a transaction."""
        self.midway: Callable[[str], None] = lambda _reached: None
        """Hook of scenarios, called in each transaction after the records and after the offsets are sent."""
        self.speaks_newest = True
        self._output = output

    def start(self) -> None:
        if self.alive:
            return
        self.producer.start()
        self.producer.do(self._begin())
        super().start()

    def kill(self, why: str) -> None:
        self.producer.kill(why)
        super().kill(why)

    def freeze(self, for_ms: int) -> None:
        self.producer.freeze(for_ms)
        super().freeze(for_ms)

    def leave(self) -> None:
        if not self.producer.works:  # a user completes a started transaction
            super().leave()

    @property
    def is_delayed(self) -> bool:
        return super().is_delayed or self.producer.works

    def _fail(self, error: KohortError) -> None:
        self.history.add(self.name, "gives up", str(error))
        self.kill(f"its application ends: {error}")
        self.restart_later()

    def take(self, records: list[Record]) -> None:
        self.end_poll()
        self.producer.do(self._copy(records))

    def _begin(self) -> Work:
        machine = self.producer.machine
        assert machine is not None
        machine.transactional().use_second_protocol = self.speaks_newest
        yield (promise := machine.transactional().init())
        promise.result()
        while machine.partitions(self._output) is None:
            yield None

    def _copy(self, records: list[Record]) -> Work:
        machine, now_ms = self.producer.machine, self.world.now_ms
        assert machine is not None
        transactions = machine.transactional()
        transactions.begin()
        try:
            for number, record in enumerate(records):
                partition = number % (machine.partitions(self._output) or 1)
                machine.add(self._output, partition, NewRecord(None, record.value, (), now_ms), now_ms)
            ahead = {TopicPartition(r.topic, r.partition): OffsetAndMetadata(r.offset + 1) for r in records}
            yield self._handle("records sent")
            yield (promise := transactions.send_offsets(ahead, self._member()))
            promise.result()
            yield self._handle("offsets sent")
            if self.rng.random() < self.aborts:
                raise TransactionFailed("the user aborts the transaction")  # noqa: TRY301  # as any failure
            yield (promise := machine.commit_transaction())
            promise.result()
        except TransactionFailed:
            yield (promise := transactions.abort())
            promise.result()
            raise  # the consumer's position no longer equals the group's committed offset
        self.think(0)

    def _handle(self, reached: str) -> Promise[None]:
        """Pause for the user's processing time during the transaction."""
        self.midway(reached)
        promise: Promise[None] = Promise()

        def done() -> None:
            promise.resolve(None)
            self.producer.step(Tick())

        self.world.after(self.takes_ms(), done)
        return promise

    def _member(self) -> GroupMetadata:
        assert self.machine is not None
        return self.machine.group_metadata()
