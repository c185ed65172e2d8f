"""A broker machine at an address of the simulated network: what its process does for it."""

from __future__ import annotations

from typing import Protocol

from kohort.broker.broker import Broker
from kohort.broker.io import Close, Connected, Disconnected, Input, Output, Pause, Received, Resume, Send, Tick
from kohort.config.listeners import DEFAULT_LISTENER
from kohort_lab.sim.disk import ProcessDied
from kohort_lab.sim.network import Address
from kohort_lab.sim.stage import Stage


class HostProcess(Protocol):
    """The process that a machine runs in."""

    @property
    def now_ms(self) -> int:
        """What the clock of its computer says."""

    @property
    def clock_ahead_ms(self) -> int:
        """How far that is ahead of the world's time."""

    @property
    def is_frozen(self) -> bool: ...

    def dies(self) -> None:
        """End it here, in the middle of a write."""

    def after_event(self) -> None:
        """Hear that the machine has taken an event."""


class BrokerHost:
    """One machine: bytes go in and out, ticks come when it wants them, and what arrives while it is frozen waits."""

    def __init__(
        self, process: HostProcess, name: str, address: Address, stage: Stage, listener: str = DEFAULT_LISTENER
    ) -> None:
        self.broker: Broker | None = None
        self._listener = listener
        self._process = process
        self._name = name
        self._address = address
        self._world = stage.world
        self._network = stage.network
        self._history = stage.history
        self._wake_at_ms: int | None = None
        self._paused: dict[int, list[bytes]] = {}
        self._held: list[Input] = []

    # ------------------------------------------------------------ life

    def begin(self, broker: Broker) -> None:
        """Listen, for this machine."""
        assert self.broker is None, "it runs already"
        self.broker = broker
        self._network.listen(self._address, self)
        self.arm()

    def end(self) -> None:
        """Reset its links, and listen no more."""
        self.broker = None
        self._paused.clear()
        self._held.clear()
        self._network.vanish(self._address)

    def thaw(self) -> None:
        """Let the process go on: handle what arrived meanwhile."""
        held, self._held = self._held, []
        for given in held:
            self.handle(given)
        self.handle(Tick())

    # ------------------------------------------------------------ the network's side

    def peer_connected(self, link: int, host: str) -> None:
        self.handle(Connected(link, host, self._listener))

    def peer_received(self, link: int, data: bytes) -> None:
        if link in self._paused:
            self._paused[link].append(data)
        else:
            self.handle(Received(link, data))

    def peer_gone(self, link: int) -> None:
        self._paused.pop(link, None)
        self.handle(Disconnected(link))

    # ------------------------------------------------------------ the machine

    def handle(self, given: Input) -> None:
        """Give the machine an event, unless its process is frozen or gone."""
        if self.broker is None:
            return
        if self._process.is_frozen:
            if not isinstance(given, Tick):
                self._held.append(given)
            return
        try:
            outputs = self.broker.handle(given, self._process.now_ms)
        except ProcessDied:
            self._process.dies()
            return
        for note in self.broker.take_notes():
            self._history.add(self._name, "note", str(note))
        for output in outputs:
            self._put_out(output)
        self.arm()
        self._process.after_event()

    def _put_out(self, output: Output) -> None:
        match output:
            case Send(connection=link, buffers=buffers):
                self._network.server_sends(link, b"".join(buffers))
            case Close(connection=link, reason=reason):
                self._history.add(self._name, "hangs up", reason)
                self._paused.pop(link, None)
                self._network.server_closes(link)
            case Pause(connection=link):
                self._paused.setdefault(link, [])
            case Resume(connection=link):
                for data in self._paused.pop(link, []):
                    self._world.after(0, lambda d=data: self.peer_received(link, d))  # type: ignore[misc]  # bound at once

    def arm(self) -> None:
        """Have a Tick come when the machine wants one; an earlier one that is under way serves as well."""
        if self.broker is None or (at_ms := self.broker.wake_at_ms) is None:
            return
        at_ms = max(at_ms - self._process.clock_ahead_ms, self._world.now_ms)
        if self._wake_at_ms is None or at_ms < self._wake_at_ms:
            self._wake_at_ms = at_ms
            self._world.after(at_ms - self._world.now_ms, lambda: self._wake(at_ms))

    def _wake(self, at_ms: int) -> None:
        if self._wake_at_ms == at_ms:
            self._wake_at_ms = None
            self.handle(Tick())
