"""Consumer of the ZooKeeper era as an actor: a tree server session, and a reader of partitions.

It reads with the real client and manual assignment, so fetching is the same in every generation. Its own parts are the
claims (``claims.py``) and the offsets in the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

from kohort.client.consumer import ConsumerMachine
from kohort.client.reading.subscription import Position
from kohort.client.requests.io import Tick
from kohort.config.client import ConsumerConfig
from kohort.errors import KohortError
from kohort.model import TopicPartition
from kohort_lab.sim.actors.clients import EngineActor
from kohort_lab.sim.generations.claims import OwnerClaims, Sleep, StartReading, StopReading
from kohort_lab.sim.run_context import RunContext
from kohort_lab.sim.tree.session import TreeSession

HOSTS: Final = 10_000
THINK_MS: Final = (5, 200)
RECORDS_MOST: Final = 500


class TreeConsumer(EngineActor):
    """Member that starts, dies and restarts."""

    def __init__(
        self, name: str, context: RunContext, config: ConsumerConfig, session: TreeSession, group_id: str, topic: str
    ) -> None:
        super().__init__(name, context)
        self.session = session
        session.user = self
        self.poll_end_ms = 0
        self._config = config
        self._watcher = context.checks
        self._machine: ConsumerMachine | None = None
        self._host = f"host{self.rng.randrange(HOSTS):04d}"
        self._group_id, self._topic = group_id, topic
        self._claims = OwnerClaims(group_id, "", topic)
        self._life = 0
        self._rebalancing = self._again = self._committing = self._is_registered = False
        self._thinks_until_ms = 0

    def start(self) -> None:
        if self.alive:
            return
        self._life += 1
        self._claims = OwnerClaims(
            self._group_id, f"{self._group_id}_{self._host}-{self.name}-{self._life}", self._topic
        )
        self._rebalancing = self._again = self._committing = False
        self._machine = ConsumerMachine(self._config, self.rng)
        self.run_engine(self._machine.engine)
        self.session.start()
        self._register()
        self._commit_later(self._life)

    def kill(self, why: str) -> None:
        """Kill the process; its session expires later."""
        if not self.alive:
            return
        self._watcher.revoked(self, "killed", frozenset(self.assigned))
        self._life += 1
        self.session.kill()
        super().kill(why)
        self._machine = None

    def leave(self) -> None:
        """Close as an application does: commit, end the session, exit."""
        if not self.alive or self.frozen:
            return
        self.history.add(self.name, "leaves")
        self._life += 1  # aborts a rebalance in flight
        self._run(self._claims.commit(self._stop_reading()), lambda _: self._end())

    def _end(self) -> None:
        self.session.end()
        self.kill("closed")

    def freeze(self, for_ms: int) -> None:
        if self.alive:
            self.session.freeze(for_ms)
        super().freeze(for_ms)

    @property
    def identity(self) -> str:
        return self.name

    @property
    def instance_id(self) -> str | None:
        return None

    @property
    def member_id(self) -> str:
        return self._claims.member_id

    @property
    def generation_id(self) -> int:
        """Generation, always -1: this protocol has none."""
        return -1

    @property
    def assigned(self) -> set[TopicPartition]:
        return set(self._machine.subscription.assigned) if self._machine is not None else set()

    @property
    def is_delayed(self) -> bool:
        return self.frozen

    @property
    def is_rebalancing(self) -> bool:
        return self._rebalancing or not self._is_registered

    @property
    def polls(self) -> bool:
        return self.alive

    @property
    def max_poll_interval_ms(self) -> int:
        return self._config.max_poll_interval_ms

    def watch_fired(self, path: str) -> None:
        del path  # any path
        self._trigger()

    def session_renewed(self) -> None:
        """Register again and rebalance; reading continues until the rebalance stops it."""
        self.history.add(self.name, "session expired")
        self._claims.forget()
        self._register()

    def _register(self) -> None:
        self._is_registered, life = False, self._life
        self.session.ask(self._claims.registration, lambda _: self._registered(life))

    def _registered(self, life: int) -> None:
        if life == self._life:
            self._is_registered = True
            self._trigger()

    def _trigger(self) -> None:
        if self._rebalancing:
            self._again = True
            return
        self._rebalancing, self._again = True, False
        self._run(self._claims.rebalance(), self._rebalanced)

    def _rebalanced(self, done: bool) -> None:
        self._rebalancing = False
        if not done:
            self.history.add(self.name, "gives up", f"cannot rebalance in {self._claims.max_retries} attempts")
        if self._again:
            self._trigger()

    def _commit_later(self, life: int) -> None:
        self.world.after(self._config.auto_commit_interval_ms, lambda: self._when_awake(lambda: self._commit(life)))

    def _commit(self, life: int) -> None:
        if life != self._life:
            return
        if not self._committing:
            self._committing = True
            self._run(self._claims.commit(self._positions()), self._committed)
        self._commit_later(life)

    def _committed(self, _: None) -> None:
        self._committing = False

    def _run(self, work: Generator[Any, Any, Any], then: Callable[[Any], None]) -> None:
        self._go_on(work, None, then, self._life)

    def _go_on(self, work: Generator[Any, Any, Any], response: Any, then: Callable[[Any], None], life: int) -> None:
        while life == self._life:
            try:
                effect = work.send(response)
            except StopIteration as end:
                then(end.value)
                return
            match effect:
                case StopReading():
                    response = self._stop_reading()
                case StartReading(offsets=offsets):
                    self._start_reading(offsets)
                    response = None
                case Sleep(for_ms=for_ms, round_trips=round_trips):
                    wait_ms = for_ms + round_trips * self.session.rtt_ms
                    go_on = lambda: self._when_awake(lambda: self._go_on(work, None, then, life))  # noqa: E731
                    self.world.after(wait_ms, go_on)
                    return
                case _:
                    self.session.ask(effect, lambda answer: self._go_on(work, answer, then, life))
                    return

    def _when_awake(self, act: Callable[[], None]) -> None:
        if self.frozen:
            self.world.after(self.frozen_until_ms - self.world.now_ms, lambda: self._when_awake(act))
        else:
            act()

    def _positions(self) -> dict[TopicPartition, int]:
        machine = self._machine
        assert machine is not None
        found = {p: machine.position(p) for p in self._claims.owned if p in machine.subscription.assigned}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def _stop_reading(self) -> dict[TopicPartition, int]:
        positions, had = self._positions(), frozenset(self.assigned)
        assert self._machine is not None
        self._machine.assign(())
        if had:
            self._watcher.revoked(self, "released", had)
            self.step_soon()
        return positions

    def _start_reading(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        machine = self._machine
        assert machine is not None
        machine.assign(offsets)
        for partition, offset in offsets.items():
            if offset is not None:
                machine.subscription.seek(partition, Position(offset))
        self.history.add(self.name, "owns", ", ".join(map(str, offsets)) or "nothing")
        self._watcher.took(self, self.generation_id, frozenset(offsets))
        self.step_soon()

    def after_step(self) -> None:
        """Process available records as the user, then pause."""
        machine = self._machine
        if machine is None or not machine.subscription.assigned or self.world.now_ms < self._thinks_until_ms:
            return
        try:
            machine.advance(self.world.now_ms)
            fetched, is_new = machine.open_batch()
            if is_new and machine.may_fetch:
                self.step_soon()
            if fetched is None:
                return
            fetched.decode_records(check_crcs=True)
            records = machine.take_records(fetched, RECORDS_MOST)
        except KohortError as error:
            self.history.add(self.name, "is told", str(error))
            return
        if records:
            self._watcher.read(self, records)
            think_ms = self.rng.randint(*THINK_MS)
            self._thinks_until_ms = self.world.now_ms + think_ms
            self.world.after(think_ms, lambda: self.step(Tick()))
