"""A broker as an actor: the real machine, on a disk that outlives it, at an address of the simulated network."""

from __future__ import annotations

from kohort.broker.broker import Broker
from kohort.broker.io import Close, Connected, Disconnected, Input, Pause, Received, Resume, Send, Tick
from kohort.config.broker import BrokerConfig
from kohort.errors import StorageError
from kohort.model import TopicPartition
from kohort.sim.checks.watcher import Watcher
from kohort.sim.disk import FaultyDisk, ProcessDied
from kohort.sim.history import History
from kohort.sim.network import Network
from kohort.sim.world import World

RESTART_MS = (50, 4000)


class BrokerActor:
    """One broker process: it starts, serves, dies, and starts again on the same disk."""

    def __init__(
        self, world: World, network: Network, history: History, config: BrokerConfig, watcher: Watcher
    ) -> None:
        self.config = config
        self._watcher = watcher
        self.disk = FaultyDisk(world.fork_rng())
        self.broker: Broker | None = None
        self.frozen_until_ms = 0
        self.clock_ahead_ms = 0
        self._world = world
        self._network = network
        self._history = history
        self._rng = world.fork_rng()
        self._address = (config.listen_host, config.listen_port)
        self._wake_at_ms: int | None = None
        self._paused: dict[int, list[bytes]] = {}
        self._held: list[Input] = []

    # ------------------------------------------------------------ life and death

    def start(self) -> None:
        """Start the process; where the disk refuses, it is tried again a little later."""
        assert self.broker is None, "it runs already"
        try:
            self.broker = Broker(self.config, self.disk, self._world.fork_rng(), self.now_ms, checked=True)
        except (StorageError, ProcessDied) as error:
            self._history.add("broker", "start failed", str(error) or "died while starting")
            self._world.after(self._rng.randint(*RESTART_MS), self._maybe_start)
            return
        self._history.add("broker", "started")
        self._watcher.broker_started(self)
        self._network.listen(self._address, self)
        self._arm()

    def _maybe_start(self) -> None:
        if self.broker is None:
            self.start()

    def kill(self, why: str, *, restart_in_ms: int | None = None, writing: bool = False) -> None:
        """End the process at once, even in the middle of ``writing``; what its disk holds stays."""
        if self.broker is None:
            return
        self._watcher.broker_dies(self, writing=writing)
        self._history.add("broker", "killed", why)
        self.broker = None
        self.frozen_until_ms = 0
        self._paused.clear()
        self._held.clear()
        self._network.vanish(self._address)
        wait_ms = self._rng.randint(*RESTART_MS) if restart_in_ms is None else restart_in_ms
        self._world.after(wait_ms, self._maybe_start)

    def freeze(self, for_ms: int) -> None:
        """Stop the process without ending it: what arrives is handled when it wakes."""
        if self.broker is not None:
            self._history.add("broker", "frozen", f"{for_ms} ms")
            self.frozen_until_ms = self._world.now_ms + for_ms
            self._world.after(for_ms, self._thaw)

    @property
    def now_ms(self) -> int:
        """What the clock of its machine says; clients never compare it with theirs."""
        return self._world.now_ms + self.clock_ahead_ms

    def jump(self, ahead_ms: int) -> None:
        """Its clock is put forward; a clock that goes back is not shown to a machine at all."""
        self._history.add("broker", "clock put forward", f"{ahead_ms} ms")
        self.clock_ahead_ms += ahead_ms
        self._handle(Tick())

    @property
    def is_frozen(self) -> bool:
        return self._world.now_ms < self.frozen_until_ms

    def _thaw(self) -> None:
        if self.is_frozen:
            return  # frozen again meanwhile, for longer
        held, self._held = self._held, []
        for given in held:
            self._handle(given)
        self._handle(Tick())

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """What the group has committed, as the coordinator has it now."""
        offsets = self.broker.state.coordinator.committed(group_id) if self.broker is not None else None
        return {TopicPartition(t, p): value.offset for t, p, value in offsets or ()}

    # ------------------------------------------------------------ the network's side

    def peer_connected(self, link: int, host: str) -> None:
        self._handle(Connected(link, host))

    def peer_received(self, link: int, data: bytes) -> None:
        if link in self._paused:
            self._paused[link].append(data)
        else:
            self._handle(Received(link, data))

    def peer_gone(self, link: int) -> None:
        self._paused.pop(link, None)
        self._handle(Disconnected(link))

    # ------------------------------------------------------------ the machine

    def _handle(self, given: Input) -> None:
        if self.broker is None:
            return
        if self._world.now_ms < self.frozen_until_ms:
            if not isinstance(given, Tick):
                self._held.append(given)
            return
        try:
            outputs = self.broker.handle(given, self.now_ms)
        except ProcessDied:
            self.kill("died in the middle of a write", writing=True)
            return
        for note in self.broker.take_notes():
            self._history.add("broker", "note", note)
        for output in outputs:
            match output:
                case Send(connection=link, buffers=buffers):
                    self._network.server_sends(link, b"".join(bytes(b) for b in buffers))
                case Close(connection=link, reason=reason):
                    self._history.add("broker", "hangs up", reason)
                    self._paused.pop(link, None)
                    self._network.server_closes(link)
                case Pause(connection=link):
                    self._paused.setdefault(link, [])
                case Resume(connection=link):
                    self._resume(link)
        self._arm()

    def _resume(self, link: int) -> None:
        for data in self._paused.pop(link, []):
            self._world.after(0, lambda d=data: self.peer_received(link, d))  # type: ignore[misc]  # bound at once

    def _arm(self) -> None:
        """Have a Tick come when the machine wants one; an earlier one that is under way serves as well."""
        if self.broker is None or (at_ms := self.broker.wake_at_ms) is None:
            return
        at_ms = max(at_ms - self.clock_ahead_ms, self._world.now_ms)
        if self._wake_at_ms is None or at_ms < self._wake_at_ms:
            self._wake_at_ms = at_ms
            self._world.after(at_ms - self._world.now_ms, lambda: self._wake(at_ms))

    def _wake(self, at_ms: int) -> None:
        if self._wake_at_ms != at_ms:
            return
        self._wake_at_ms = None
        if self._world.now_ms < self.frozen_until_ms:
            return
        self._handle(Tick())
