"""A consumer as an actor: the real machine, and a user that polls, handles, commits, and is sometimes slow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kohort.client.consumer import ConsumerMachine, TopicsOrPattern
from kohort.client.group.commits import Offsets
from kohort.client.reading.subscription import Position, Reset
from kohort.client.requests.io import Tick
from kohort.client.requests.source import Promise
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.model import Record, SubscriptionPattern, TopicPartition
from kohort_lab.sim.actors.clients import EngineActor
from kohort_lab.sim.stage import Stage

RESTART_MS = (20, 3000)
DENIED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED})


@dataclass(slots=True)
class UserPace:
    """How the user works: milliseconds between polls, and now and then a handler that takes long."""

    think_ms: tuple[int, int] = (5, 200)
    slow: float = 0.0
    slow_ms: tuple[int, int] = (1000, 4000)
    commit_each_poll: float = 0.2
    most_records: int = 500
    poll_ms: int = 1000
    """How long a poll waits for records."""
    polls_on: bool = False
    """Whether the user polls on after it was told that it may not read."""
    commits: list[Promise[Offsets]] = field(default_factory=list)


class ConsumerActor(EngineActor):
    """One member of the group, from its start to its death, and again."""

    def __init__(self, name: str, stage: Stage, config: ConsumerConfig, topics: TopicsOrPattern) -> None:
        super().__init__(name, stage)
        self.machine: ConsumerMachine | None = None
        self.pace = UserPace()
        self.stopped = False
        """Whether it has left for good."""
        self.busy_until_ms = 0
        """Until when the user handles what the last poll gave, or stands still."""
        self.left_poll_ms = 0
        self.listens = False
        """Whether its listener works, for longer than a moment: the user is in poll(), and gets nothing else done."""
        self._config = config
        self._topics = topics
        self._wishes: list[Callable[[ConsumerMachine], None]] = []
        self._away_ms = 0
        self._watcher = stage.checks
        self._polling = False
        self._poll_ends_ms = 0
        self._kicked = False
        self._leaving: Promise[None] | None = None
        self._life = 0
        self._kills = 0

    # ------------------------------------------------------------ life and death

    def start(self) -> None:
        if self.alive:
            return
        self._life += 1
        self.machine = ConsumerMachine(self._config, self.rng)
        self.machine.subscribe(self._topics)
        self._wishes, self._away_ms = [], 0
        self._polling, self._leaving, self.stopped = False, None, False
        self.listens = False
        self.left_poll_ms = self.world.now_ms
        self.run_engine(self.machine.engine)
        self._after_thinking(0)

    def kill(self, why: str) -> None:
        """End the process, and a restart that is to come."""
        self._kills += 1
        if self.alive:
            self._watcher.gave_up(self, "killed", frozenset(self.assigned))
        super().kill(why)
        self.machine = None
        self._polling = False

    def restart_later(self) -> None:
        """Start it again a little later, unless it is killed meanwhile."""
        kills = self._kills
        self.world.after(self.rng.randint(*RESTART_MS), lambda: self.start() if kills == self._kills else None)

    def leave(self) -> None:
        """Close as an application does: callbacks, LeaveGroup, the end."""
        machine = self.machine
        if machine is None or self._leaving is not None or self.frozen or self.listens:
            return
        self.history.add(self.name, "leaves")
        needed = machine.prepare_leave()
        if needed is not None:
            self._watcher.gave_up(self, needed.kind, frozenset(needed.partitions))
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
    def is_held_up(self) -> bool:
        """Frozen, in a handler that takes long, or about to do what it was told before the faults ended."""
        handles = self.listens or self.busy_until_ms > self.world.now_ms + self.pace.think_ms[1]
        return self.frozen or handles or bool(self._wishes) or self._away_ms > 0

    @property
    def is_rebalancing(self) -> bool:
        """A join, a callback or a rejoin is due."""
        group = self.machine.group if self.machine is not None else None
        return group is None or group.rebalance.is_due or not group.membership.is_stable

    @property
    def is_settled(self) -> bool:
        """Whether it owns what the group agreed on, and knows of no more to come."""
        return self.machine is not None and self.machine.is_stable

    @property
    def held_back(self) -> set[TopicPartition]:
        """What it owns and hands out nothing of, as it is to go."""
        owned = self.machine.subscription.assigned if self.machine is not None else {}
        return {partition for partition, state in owned.items() if state.pending_revocation}

    @property
    def identity(self) -> str:
        """Who it is to the group: a static member is the same one under every member id."""
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

    # ------------------------------------------------------------ the user

    @property
    def polls(self) -> bool:
        """Whether the user is in poll()."""
        return self._polling

    @property
    def max_poll_interval_ms(self) -> int:
        return self._config.max_poll_interval_ms

    def _after_thinking(self, delay_ms: int) -> None:
        life = self._life
        self.world.after(delay_ms, lambda: self._poll(life))

    # What it may do before its next poll

    def change_mind(self, topic: str | None) -> None:
        """Have the user subscribe to ``topic`` alone before its next poll; None: to all that it was started with."""
        self._wishes.append(lambda machine: self._subscribe(machine, topic))

    def _subscribe(self, machine: ConsumerMachine, topic: str | None) -> None:
        by_pattern = isinstance(self._topics, SubscriptionPattern)
        only: TopicsOrPattern = SubscriptionPattern(topic or "") if by_pattern else [topic or ""]
        self.history.add(self.name, "subscribes to", topic or "all")
        machine.subscribe(self._topics if topic is None else only)

    def pause_one(self) -> None:
        """Have the user take nothing of one partition from its next poll on."""
        self._wishes.append(self._pause_one)

    def _pause_one(self, machine: ConsumerMachine) -> None:
        if owned := sorted(machine.subscription.assigned):
            partition = self.rng.choice(owned)
            self.history.add(self.name, "pauses", str(partition))
            machine.subscription.set_paused([partition], paused=True)

    def go_back(self) -> None:
        """Have the user read one partition again before its next poll, from the begin or from somewhere behind it."""
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
            subscription.seek_to([partition], Reset.EARLIEST)
        self._watcher.sought(self, partition, offset)

    def resume(self) -> None:
        """Have the user go on with what it has paused."""
        self._wishes.append(lambda machine: machine.subscription.set_paused(self.assigned, paused=False))

    def unsubscribe_for(self, away_ms: int) -> None:
        """Have the user unsubscribe before its next poll, and subscribe again ``away_ms`` later."""
        self._away_ms = away_ms

    def _unsubscribe(self, machine: ConsumerMachine, life: int) -> None:
        away_ms, self._away_ms = self._away_ms, 0
        self.history.add(self.name, "unsubscribes", f"for {away_ms} ms")
        needed = machine.prepare_leave()
        if needed is not None:
            self._watcher.gave_up(self, needed.kind, frozenset(needed.partitions))
        machine.leave("the consumer unsubscribed from all topics")
        self.step(Tick())
        self.change_mind(None)
        self.world.after(away_ms, lambda: self._poll(life))

    def _poll(self, life: int) -> None:
        if self._life != life or self.machine is None or self._leaving is not None:
            return
        if self.frozen:
            self.busy_until_ms = max(self.busy_until_ms, self.frozen_until_ms)  # a shorter stop may end this one
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
            return  # looked at again when that has ended
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
        """Go on with the poll as the blocking face does: callbacks where a rebalance goes on, then records if there
        are any. The engine is kicked only where it has something to hear."""
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
                    self._tell(machine, needed.kind, frozenset(needed.partitions))
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
        """Be the user to whom poll() raised ``error``."""
        if self.pace.polls_on and isinstance(error, ApiError) and error.code in DENIED:
            self.history.add(self.name, "is denied", str(error))
            self._leave_poll()
            return
        self.history.add(self.name, "gives up", str(error))
        self.kill(f"its application ends: {error}")
        self.restart_later()

    def take(self, records: list[Record]) -> None:
        """Be the user who was given records."""
        del records  # the watcher has them
        assert self.machine is not None
        if self.rng.random() < self.pace.commit_each_poll:
            self.pace.commits.append(self.machine.commit(None, None))
            self.step_soon()
        self._leave_poll()

    def _tell(self, machine: ConsumerMachine, kind: str, partitions: frozenset[TopicPartition]) -> None:
        """Be the listener."""
        if kind == "assigned":
            machine.acknowledge(self.world.now_ms)
            owned = frozenset(self.assigned)
            self.history.add(self.name, "owns", f"generation {self.generation_id}: {_names(owned)}")
            self._watcher.took(self, self.generation_id, owned)
        else:
            self.history.add(self.name, kind, _names(partitions))
            self._watcher.gave_up(self, kind, partitions)
            machine.acknowledge(self.world.now_ms)

    def _leave_poll(self) -> None:
        self.end_poll()
        self.think(self.takes_ms())

    def end_poll(self) -> None:
        """Leave poll()."""
        assert self.machine is not None
        self._polling = False
        self.left_poll_ms = self.world.now_ms
        self.machine.leave_poll(self.world.now_ms)

    def think(self, for_ms: int) -> None:
        """Poll again once the user has thought, or handled what it was given."""
        self._after_thinking(for_ms)

    def takes_ms(self) -> int:
        """Draw for how long the user is busy now, in milliseconds."""
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
