"""Faults of a run: each fault of the plan strikes at random times, and ends before the calm phase."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from kohort_lab.sim.actors.consumers import ConsumerActor
from kohort_lab.sim.disk import DiskWeather, FaultyDisk
from kohort_lab.sim.run_context import RunContext
from kohort_lab.sim.swarm import CHANGES_MIND, PAUSES, SEEKS, UNSUBSCRIBES, Plan

LEAVE_ENDS_MS = 6_000


class BrokerProcess(Protocol):
    """Faults of a broker process."""

    disk: FaultyDisk

    def kill(self, why: str) -> None: ...
    def freeze(self, for_ms: int) -> None: ...
    def jump(self, ahead_ms: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Victims:
    """Targets of faults."""

    broker: BrokerProcess
    consumers: Sequence[ConsumerActor]
    double: ConsumerActor
    """Second process with the first consumer's configuration, started for a while by a fault."""


@dataclass(frozen=True, slots=True)
class OwnFaults:
    """Faults of one world: every plan has the faults in ``always``, and any others that it lists."""

    without_user: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    of_a_consumer: Mapping[str, Callable[[ConsumerActor], None]] = field(default_factory=dict)
    """Faults of one consumer; called with a member that has a member id."""
    always: Mapping[str, Callable[[random.Random], None]] = field(default_factory=dict)


class Faults:
    """Fault injector; ``calm`` ends all faults."""

    def __init__(self, context: RunContext, plan: Plan, victims: Victims, own: OwnFaults) -> None:
        self.on = True
        self._world = context.world
        self._rng = context.world.fork_rng()
        self._plan = plan
        self._network = network = context.network
        self._broker = broker = victims.broker
        self._consumers = victims.consumers
        self._double = victims.double
        self._strikes: dict[str, Callable[[], None]] = {
            "cut": self._cut,
            "crash broker": lambda: broker.kill("kill -9"),
            "kill member": self._kill_member,
            "freeze member": self._freeze_member,
            "freeze broker": lambda: broker.freeze(self._rng.randint(100, 12_000)),
            "refuse writes": self._refuse_writes,
            "torn write": self._torn_write,
            "clog": self._clog,
            "scale": self._scale,
            "slow handler": self._slow_handler,
            "leave": self._leave,
            "one-way cut": lambda: network.deafen_some(self._rng.choice([0.2, 0.5, 1.0])),
            "deploy": self._deploy,
            "double": self._start_double,
            CHANGES_MIND: self._change_mind,
            UNSUBSCRIBES: lambda: self._victim().unsubscribe_for(self._rng.randint(10, 8_000)),
            PAUSES: self._pause,
            SEEKS: lambda: self._victim().go_back(),
            "clock jump": lambda: broker.jump(self._rng.choice([50, 2_000, plan.session_timeout_ms, 60_000])),
        }
        self._strikes |= own.without_user
        self._strikes |= {what: partial(self._meddle, act) for what, act in own.of_a_consumer.items()}
        self._strikes |= {what: partial(strike, self._rng) for what, strike in own.always.items()}
        self._enabled = sorted({*plan.faults, *own.always})
        self._next()

    def calm(self) -> None:
        """End all faults: repair network and disk, speed up users, restart all processes."""
        self.on = False
        self._network.heal()
        self._double.kill("it should never have been there")
        self._broker.disk.weather = DiskWeather()
        for consumer in self._consumers:
            consumer.pace.slow = 0.0
            if not consumer.alive:
                consumer.restart_later()
            self._world.after(LEAVE_ENDS_MS, consumer.start)  # a member that is leaving restarts after its leave

    def _next(self) -> None:
        if self._enabled:
            self._world.after(self._rng.randint(1, 2 * self._plan.fault_every_ms), self._strike)

    def _strike(self) -> None:
        if self.on:
            self._strikes[self._rng.choice(self._enabled)]()
            self._next()

    def _victim(self) -> ConsumerActor:
        return self._rng.choice(self._consumers)

    def _for_a_while(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        begin()
        self._world.after(self._rng.randint(200, 5_000), end)

    def _cut(self) -> None:
        if self._rng.random() < 0.5:
            self._network.cut_some(self._rng.choice([0.2, 0.5, 1.0]))
            return
        weather = self._network.weather
        self._for_a_while(
            lambda: setattr(weather, "cut", self._rng.choice([0.03, 0.2])), lambda: setattr(weather, "cut", 0.0)
        )

    def _clog(self) -> None:
        weather = self._network.weather
        self._for_a_while(lambda: setattr(weather, "clog", 0.1), lambda: setattr(weather, "clog", 0.0))

    def _refuse_writes(self) -> None:
        weather = self._broker.disk.weather
        self._for_a_while(
            lambda: setattr(weather, "refuse", self._rng.choice([0.3, 1.0])), lambda: setattr(weather, "refuse", 0.0)
        )

    def _torn_write(self) -> None:
        weather = self._broker.disk.weather
        self._for_a_while(lambda: setattr(weather, "die", 0.1), lambda: setattr(weather, "die", 0.0))

    def _kill_member(self) -> None:
        victim = self._victim()
        victim.kill("kill -9")
        victim.restart_later()

    def _freeze_member(self) -> None:
        longest = self._plan.session_timeout_ms + 5_000
        self._victim().freeze(self._rng.randint(100, longest))

    def _deploy(self) -> None:
        """Restart each member in turn (a rolling restart)."""
        for number, consumer in enumerate(self._consumers):
            self._world.after(number * self._rng.randint(200, 4_000), lambda c=consumer: self._restart(c))  # type: ignore[misc]  # bound at once

    def _restart(self, consumer: ConsumerActor) -> None:
        if not self.on or not consumer.alive:
            return
        if self._rng.random() < 0.5:
            consumer.leave()
            self._world.after(LEAVE_ENDS_MS, consumer.start)
        else:
            consumer.kill("deployed anew")
            consumer.restart_later()

    def _start_double(self) -> None:
        """Start a second process with the first consumer's configuration, including its instance id, for a while."""
        if not self._double.alive:
            self._for_a_while(self._double.start, lambda: self._double.kill("noticed and stopped"))

    def _scale(self) -> None:
        victim = self._victim()
        if victim.alive:
            victim.kill("scaled down by force")
        else:
            victim.start()

    def _leave(self) -> None:
        victim = self._victim()
        if victim.alive:
            victim.leave()
        else:
            victim.start()

    def _change_mind(self) -> None:
        victim, only = self._victim(), self._rng.choice(sorted(self._plan.topics))
        victim.change_mind(only)
        for_ms = self._rng.randint(*self._rng.choice([(100, 1_500), (200, 5_000)]))
        if for_ms < 1_500:  # the effect of the first change is in flight during the second
            self._world.after(self._rng.randint(1, for_ms), lambda: self._broker.freeze(for_ms))
        self._world.after(for_ms, lambda: victim.change_mind(None))

    def _pause(self) -> None:
        victim = self._victim()
        self._for_a_while(victim.pause_one, victim.resume)

    def _meddle(self, act: Callable[[ConsumerActor], None]) -> None:
        victim = self._victim()
        if victim.member_id:
            act(victim)

    def _slow_handler(self) -> None:
        pace = self._victim().pace
        pace.slow_ms = (500, self._plan.max_poll_interval_ms + 3_000)
        self._for_a_while(lambda: setattr(pace, "slow", 0.5), lambda: setattr(pace, "slow", 0.0))
