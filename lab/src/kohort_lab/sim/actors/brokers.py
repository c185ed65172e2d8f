"""Broker actor: a real broker machine with a disk that survives restarts."""

from __future__ import annotations

from kohort.broker.broker import Broker
from kohort.broker.io import Tick
from kohort.config.broker import BrokerConfig
from kohort.config.listeners import listeners_of
from kohort.errors import StorageError
from kohort.log.topics import Topics
from kohort.model import TopicPartition
from kohort_lab.sim.actors.broker_host import BrokerHost
from kohort_lab.sim.checks.group_invariants import check_decision
from kohort_lab.sim.disk import FaultyDisk, ProcessDied
from kohort_lab.sim.run_context import RunContext

RESTART_MS = (50, 4000)


class BrokerActor:
    """Broker process that starts, freezes, dies and restarts on the same disk."""

    def __init__(self, context: RunContext, config: BrokerConfig) -> None:
        self.config = config
        self._watcher = context.checks
        self.disk = FaultyDisk(context.world.fork_rng())
        self.frozen_until_ms = 0
        self.clock_ahead_ms = 0
        self._world = context.world
        self._history = context.history
        self._rng = context.world.fork_rng()
        listener = listeners_of(config)[0]
        self._host = BrokerHost(self, "broker", (listener.host, listener.port), context, listener.name)

    @property
    def broker(self) -> Broker | None:
        """Machine; None while the process is down."""
        return self._host.broker

    @property
    def brokers(self) -> list[Broker]:
        return [] if self.broker is None else [self.broker]

    @property
    def topics(self) -> Topics | None:
        """Topics of the running broker; None while its process is down."""
        return self.broker.state.topics if self.broker is not None else None

    def start(self) -> None:
        """Start the process; retry later if the disk fails."""
        try:
            broker = Broker(self.config, self.disk, self._world.fork_rng(), self.now_ms, check=check_decision)
        except (StorageError, ProcessDied) as error:
            self._history.add("broker", "start failed", str(error) or "died while starting")
            self._world.after(self._rng.randint(*RESTART_MS), self._maybe_start)
            return
        self._history.add("broker", "started")
        self._host.begin(broker)
        self._watcher.broker_started(self)

    def _maybe_start(self) -> None:
        if self.broker is None:
            self.start()

    def kill(self, why: str, *, restart_in_ms: int | None = None, writing: bool = False) -> None:
        """Kill the process at once, if ``writing`` during a write; the disk survives."""
        if self.broker is None:
            return
        self._watcher.broker_dies(self, writing=writing)
        self._history.add("broker", "killed", why)
        self.frozen_until_ms = 0
        self._host.end()
        wait_ms = self._rng.randint(*RESTART_MS) if restart_in_ms is None else restart_in_ms
        self._world.after(wait_ms, self._maybe_start)

    def dies(self) -> None:
        self.kill("died in the middle of a write", writing=True)

    def freeze(self, for_ms: int) -> None:
        """Freeze the process for a time; it handles queued events afterwards."""
        if self.broker is not None:
            self._history.add("broker", "frozen", f"{for_ms} ms")
            self.frozen_until_ms = self._world.now_ms + for_ms
            self._world.after(for_ms, self._thaw)

    @property
    def now_ms(self) -> int:
        """Clock of the broker's machine, in ms; independent of the clients' clocks."""
        return self._world.now_ms + self.clock_ahead_ms

    def jump(self, ahead_ms: int) -> None:
        """Move the clock forward; machines never see a clock go backward."""
        self._history.add("broker", "clock put forward", f"{ahead_ms} ms")
        self.clock_ahead_ms += ahead_ms
        self._host.handle(Tick())

    @property
    def is_frozen(self) -> bool:
        return self._world.now_ms < self.frozen_until_ms

    def _thaw(self) -> None:
        if not self.is_frozen:  # a second freeze may last longer
            self._host.thaw()

    def after_event(self) -> None:
        """Do nothing: a single broker has no node to start or end."""

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Return the group's committed offsets in the coordinator's memory."""
        offsets = self.broker.state.coordinator.committed(group_id) if self.broker is not None else None
        return {TopicPartition(t, p): value.offset for t, p, value in offsets or ()}
