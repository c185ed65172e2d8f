"""Consumer actor: a real consumer machine, and a user that polls, processes and commits at a random pace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kohort.client.consumer import ConsumerMachine, TopicsOrPattern
from kohort.client.group.commits import Offsets
from kohort.client.reading.subscription import Position
from kohort.client.requests.io import Tick
from kohort.client.requests.source import Promise
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.model import Record, SubscriptionPattern, TopicPartition
from kohort_lab.sim.actors.clients import EngineActor
from kohort_lab.sim.run_context import RunContext

RESTART_MS = (20, 3000)
DENIED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED})


@dataclass(slots=True)
class UserPace:
    """Pace of the user: milliseconds between polls, and rare slow handlers."""

    think_ms: tuple[int, int] = (5, 200)
    slow: float = 0.0
    slow_ms: tuple[int, int] = (1000, 4000)
    commit_each_poll: float = 0.2
    most_records: int = 500
    poll_ms: int = 1000
    """Timeout of a poll, in ms."""
    polls_on: bool = False
    """True if the user continues to poll after an authorization error."""
    commits: list[Promise[Offsets]] = field(default_factory=list)


class ConsumerActor(EngineActor):
    """Group member that starts, dies and restarts."""

    def __init__(self, name: str, context: RunContext, config: ConsumerConfig, topics: TopicsOrPattern) -> None:
        super().__init__(name, context)
        self.machine: ConsumerMachine | None = None
        self.pace = UserPace()
        self.stopped = False
        """True after a permanent leave."""
        self.busy_until_ms = 0
        """End time of the user's current processing or freeze, in ms."""
        self.poll_end_ms = 0
        self.listens = False
        """True while a slow rebalance listener blocks poll()."""
        self._config = config
        self._topics = topics
        self._wishes: list[Callable[[ConsumerMachine], None]] = []
        self._away_ms = 0
        self._watcher = context.checks
        self._polling = False
        self._poll_ends_ms = 0
        self._kicked = False
        self._leaving: Promise[None] | None = None
        self._life = 0
        self._kills = 0

    def start(self) -> None:
        if self.alive:
            return
        self._life += 1
        self.machine = ConsumerMachine(self._config, self.rng)
        self.machine.subscribe(self._topics)
        self._wishes, self._away_ms = [], 0
        self._polling, self._leaving, self.stopped = False, None, False
        self.listens = False
        self.poll_end_ms = self.world.now_ms
        self.run_engine(self.machine.engine)
        self._after_thinking(0)

    def kill(self, why: str) -> None:
        """Kill the process and cancel a scheduled restart."""
        self._kills += 1
        if self.alive:
            self._watcher.revoked(self, "killed", frozenset(self.assigned))
        super().kill(why)
        self.machine = None
        self._polling = False

    def restart_later(self) -> None:
        """Schedule a restart, unless the member is killed again before."""
        kills = self._kills
        self.world.after(self.rng.randint(*RESTART_MS), lambda: self.start() if kills == self._kills else None)

    def leave(self) -> None:
        """Close as an application does: callbacks, LeaveGroup, end of the process."""
        machine = self.machine
        if machine is None or self._leaving is not None or self.frozen or self.listens:
            return
        self.history.add(self.name, "leaves")
        needed = machine.prepare_leave()
        if needed is not None:
            self._watcher.revoked(self, needed.kind, frozenset(needed.partitions))
        self._leaving = machine.leave("the simulator scales down")
        machine.stop_fetching()
        self.stopped = True
        self.step(Tick())
        life = self._life
        self.world.after(5000, lambda: self._end(life))

    def _end(self, life: int) -> None:
        if self._life == life and self._leaving is not None:
            self._leaving = None
            self.kill("closed")

    @property
    def is_delayed(self) -> bool:
        """True if the process is frozen, in a slow handler, or has pending user actions."""
        handles = self.listens or self.busy_until_ms > self.world.now_ms + self.pace.think_ms[1]
        return self.frozen or handles or bool(self._wishes) or self._away_ms > 0

    @property
    def is_rebalancing(self) -> bool:
        """True if the member has to join, to rejoin or to run a rebalance callback."""
        group = self.machine.group if self.machine is not None else None
        return group is None or group.rebalance.is_due or not group.membership.is_stable

    @property
    def is_settled(self) -> bool:
        """True if the member owns its full assignment and no rebalance is pending."""
        return self.machine is not None and self.machine.is_stable

    @property
    def withheld(self) -> set[TopicPartition]:
        """Owned partitions without delivery, because their revocation is pending."""
        owned = self.machine.subscription.assigned if self.machine is not None else {}
        return {partition for partition, state in owned.items() if state.pending_revocation}

    @property
    def identity(self) -> str:
        """Identity in the group: the instance id, or the member id of a dynamic member."""
        return self._config.group_instance_id or self.member_id

    @property
    def instance_id(self) -> str | None:
        return self._config.group_instance_id

    @property
    def assigned(self) -> set[TopicPartition]:
        return set(self.machine.subscription.assigned) if self.machine is not None else set()

    @property
    def generation_id(self) -> int:
        return self.machine.group.membership.generation.generation_id if self.machine is not None else -1

    @property
    def member_id(self) -> str:
        return self.machine.group.membership.generation.member_id if self.machine is not None else ""

    @property
    def polls(self) -> bool:
        """True while the user is in poll()."""
        return self._polling

    @property
    def max_poll_interval_ms(self) -> int:
        return self._config.max_poll_interval_ms

    def _after_thinking(self, delay_ms: int) -> None:
        life = self._life
        self.world.after(delay_ms, lambda: self._poll(life))

    def change_mind(self, topic: str | None) -> None:
        """Subscribe only to ``topic`` before the next poll; None: to the initial subscription."""
        self._wishes.append(lambda machine: self._subscribe(machine, topic))

    def _subscribe(self, machine: ConsumerMachine, topic: str | None) -> None:
        by_pattern = isinstance(self._topics, SubscriptionPattern)
        only: TopicsOrPattern = SubscriptionPattern(topic or "") if by_pattern else [topic or ""]
        self.history.add(self.name, "subscribes to", topic or "all")
        machine.subscribe(self._topics if topic is None else only)

    def pause_one(self) -> None:
        """Pause one partition before the next poll."""
        self._wishes.append(self._pause_one)

    def _pause_one(self, machine: ConsumerMachine) -> None:
        if owned := sorted(machine.subscription.assigned):
            partition = self.rng.choice(owned)
            self.history.add(self.name, "pauses", str(partition))
            machine.subscription.set_paused([partition], paused=True)

    def go_back(self) -> None:
        """Seek one partition to its start or an earlier offset before the next poll."""
        self._wishes.append(self._go_back)

    def _go_back(self, machine: ConsumerMachine) -> None:
        subscription = machine.subscription
        if not subscription.assigned:
            return
        partition = self.rng.choice(sorted(subscription.assigned))
        position = subscription.assigned[partition].position
        offset = self.rng.randint(0, position.offset if position is not None else 0)
        self.history.add(self.name, "goes back", f"to {offset} of {partition}")
        if offset:
            subscription.seek(partition, Position(offset))
        else:
            subscription.seek_to([partition], "earliest")
        self._watcher.sought(self, partition, offset)

    def resume(self) -> None:
        """Resume all paused partitions before the next poll."""
        self._wishes.append(lambda machine: machine.subscription.set_paused(self.assigned, paused=False))

    def unsubscribe_for(self, away_ms: int) -> None:
        """Unsubscribe before the next poll, and subscribe again ``away_ms`` later."""
        self._away_ms = away_ms

    def _unsubscribe(self, machine: ConsumerMachine, life: int) -> None:
        away_ms, self._away_ms = self._away_ms, 0
        self.history.add(self.name, "unsubscribes", f"for {away_ms} ms")
        needed = machine.prepare_leave()
        if needed is not None:
            self._watcher.revoked(self, needed.kind, frozenset(needed.partitions))
        machine.leave("the consumer unsubscribed from all topics")
        self.step(Tick())
        self.change_mind(None)
        self.world.after(away_ms, lambda: self._poll(life))

    def _poll(self, life: int) -> None:
        if self._life != life or self.machine is None or self._leaving is not None:
            return
        if self.frozen:
            self.busy_until_ms = max(
                self.busy_until_ms, self.frozen_until_ms
            )  # a second, shorter freeze may end this one
            self._after_thinking(self.frozen_until_ms - self.world.now_ms)
            return
        while self._wishes:
            self._wishes.pop(0)(self.machine)
        if self._away_ms:
            self._unsubscribe(self.machine, life)
            return
        self._polling = True
        self._kicked = False
        self._poll_ends_ms = self.world.now_ms + self.pace.poll_ms
        self.machine.enter_poll(self.world.now_ms)
        self._pump(entering=True)
        self.world.after(self.pace.poll_ms, lambda: self._poll_times_out(life))

    def _poll_times_out(self, life: int) -> None:
        if self._life != life or not self._polling or self.world.now_ms < self._poll_ends_ms:
            return
        if self.listens:
            return  # the end of the callback calls this method again
        if self.frozen:
            self.world.after(self.frozen_until_ms - self.world.now_ms, lambda: self._poll_times_out(life))
        else:
            self._leave_poll()

    def after_step(self) -> None:
        if self._leaving is not None and self._leaving.done:
            self._leaving = None
            self.kill("closed")
        elif self._polling:
            self._pump()
        self._settle_commits()

    def _pump(self, *, entering: bool = False) -> None:
        """Continue a poll as the blocking API does: callbacks during a rebalance, then records.

        Ticks the engine only after a change.
        """
        machine = self.machine
        assert machine is not None
        now_ms = self.world.now_ms
        if self.listens:
            return
        try:
            is_due = machine.needs_user
            if is_due:
                self._kicked = False
            if entering or is_due or not machine.is_stable:
                while (needed := machine.advance(now_ms)) is not None:
                    self._run_listener(machine, needed.kind, frozenset(needed.partitions))
                    if self.listens:
                        return
            fetched, is_new = machine.open_batch()
            if is_new and machine.may_fetch:
                self.step_soon()
            records = []
            if fetched is not None:
                fetched.decode_records(check_crcs=True)
                records = machine.take_records(fetched, self.pace.most_records)
        except KohortError as error:
            self.step_soon()
            self._hear(error)
            return
        if records:
            self._watcher.read(self, records)
            self.take(records)
        elif not (self._kicked or machine.is_quiet):
            self._kicked = True
            self.step_soon()

    def _hear(self, error: KohortError) -> None:
        """Handle an error of poll() as an application does."""
        if self.pace.polls_on and isinstance(error, ApiError) and error.code in DENIED:
            self.history.add(self.name, "is denied", str(error))
            self._leave_poll()
            return
        self.history.add(self.name, "gives up", str(error))
        self.kill(f"its application ends: {error}")
        self.restart_later()

    def take(self, records: list[Record]) -> None:
        """Process polled records as an application does."""
        del records  # the watcher has received the records
        assert self.machine is not None
        if self.rng.random() < self.pace.commit_each_poll:
            self.pace.commits.append(self.machine.commit(None, None))
            self.step_soon()
        self._leave_poll()

    def _run_listener(self, machine: ConsumerMachine, kind: str, partitions: frozenset[TopicPartition]) -> None:
        """Run the rebalance listener."""
        if kind == "assigned":
            machine.acknowledge(self.world.now_ms)
            owned = frozenset(self.assigned)
            self.history.add(self.name, "owns", f"generation {self.generation_id}: {_names(owned)}")
            self._watcher.took(self, self.generation_id, owned)
        else:
            self.history.add(self.name, kind, _names(partitions))
            self._watcher.revoked(self, kind, partitions)
            machine.acknowledge(self.world.now_ms)

    def _leave_poll(self) -> None:
        self.end_poll()
        self.think(self.takes_ms())

    def end_poll(self) -> None:
        assert self.machine is not None
        self._polling = False
        self.poll_end_ms = self.world.now_ms
        self.machine.leave_poll(self.world.now_ms)

    def think(self, for_ms: int) -> None:
        """Poll again after the user's pause or processing time."""
        self._after_thinking(for_ms)

    def takes_ms(self) -> int:
        """Draw the user's processing time, in ms."""
        low, high = self.pace.slow_ms if self.rng.random() < self.pace.slow else self.pace.think_ms
        busy_ms = self.rng.randint(low, high)
        self.busy_until_ms = self.world.now_ms + busy_ms
        return busy_ms

    def _settle_commits(self) -> None:
        waiting = []
        for promise in self.pace.commits:
            if not promise.done:
                waiting.append(promise)
            elif promise.error is None:
                self._watcher.committed(self, promise.result())
        self.pace.commits = waiting


def _names(partitions: frozenset[TopicPartition]) -> str:
    return ", ".join(str(p) for p in sorted(partitions)) or "nothing"
