"""Broker machine at an address of the simulated network."""

from __future__ import annotations

from typing import Protocol

from kohort.broker.broker import Broker
from kohort.broker.io import Close, Connected, Disconnected, Input, Output, Pause, Received, Resume, Send, Tick
from kohort.config.listeners import DEFAULT_LISTENER
from kohort_lab.sim.disk import ProcessDied
from kohort_lab.sim.network import Address
from kohort_lab.sim.run_context import RunContext


class HostProcess(Protocol):
    """Process that runs a machine."""

    @property
    def now_ms(self) -> int:
        """Clock of the process, in ms."""

    @property
    def clock_ahead_ms(self) -> int:
        """Offset of the process clock to the simulated time, in ms."""

    @property
    def is_frozen(self) -> bool: ...

    def dies(self) -> None:
        """Kill the process during a write."""

    def after_event(self) -> None:
        """Run after the machine has handled an event."""


class BrokerHost:
    """Host of one machine: delivers bytes and ticks; queues events while the process is frozen."""

    def __init__(
        self, process: HostProcess, name: str, address: Address, context: RunContext, listener: str = DEFAULT_LISTENER
    ) -> None:
        self.broker: Broker | None = None
        self._listener = listener
        self._process = process
        self._name = name
        self._address = address
        self._world = context.world
        self._network = context.network
        self._history = context.history
        self._wake_at_ms: int | None = None
        self._paused: dict[int, list[bytes]] = {}
        self._queued: list[Input] = []

    def begin(self, broker: Broker) -> None:
        assert self.broker is None, "it runs already"
        self.broker = broker
        self._network.listen(self._address, self)
        self.arm()

    def end(self) -> None:
        """Reset the machine's links and stop listening."""
        self.broker = None
        self._paused.clear()
        self._queued.clear()
        self._network.vanish(self._address)

    def thaw(self) -> None:
        """Resume a frozen process and handle its queued events."""
        queued, self._queued = self._queued, []
        for event in queued:
            self.handle(event)
        self.handle(Tick())

    def peer_connected(self, link: int, host: str) -> None:
        self.handle(Connected(link, host, self._listener))

    def peer_received(self, link: int, data: bytes) -> None:
        if link in self._paused:
            self._paused[link].append(data)
        else:
            self.handle(Received(link, data))

    def peer_disconnected(self, link: int) -> None:
        self._paused.pop(link, None)
        self.handle(Disconnected(link))

    def handle(self, event: Input) -> None:
        """Pass an event to the machine, unless its process is frozen or dead."""
        if self.broker is None:
            return
        if self._process.is_frozen:
            if not isinstance(event, Tick):
                self._queued.append(event)
            return
        try:
            outputs = self.broker.handle(event, self._process.now_ms)
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
        """Schedule a Tick for the machine's deadline, unless an earlier one is scheduled."""
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
