"""Consumer actor that can start with either group protocol, for online conversions of groups.

Its listener may be slow during a revocation, while heartbeats continue.
"""

from __future__ import annotations

from typing import Final

from kohort.client.consumer import ConsumerMachine, TopicsOrPattern
from kohort.client.requests.io import Tick
from kohort.config.client import ConsumerConfig
from kohort.model import TopicPartition
from kohort_lab.sim.actors.consumers import ConsumerActor
from kohort_lab.sim.run_context import RunContext

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


class EitherProtocol(ConsumerActor):
    """Member with ``configs`` and ``wants`` by group protocol; ``protocol``: the first one."""

    def __init__(
        self,
        name: str,
        context: RunContext,
        configs: dict[str, ConsumerConfig],
        wants: dict[str, TopicsOrPattern],
        protocol: str,
    ) -> None:
        super().__init__(name, context, configs[protocol], wants[protocol])
        self.protocol = protocol
        self._configs = configs
        self._wants = wants
        self._stalls = (0, 0)
        """Stall of the next revocation: (latest start, duration), in ms."""

    def convert(self) -> None:
        """Use the other protocol after the next start."""
        self.protocol = CLASSIC if self.protocol == CONSUMER else CONSUMER
        self.history.add(self.name, "will speak", self.protocol)

    def start(self) -> None:
        if not self.alive:
            self._config, self._topics = self._configs[self.protocol], self._wants[self.protocol]
        super().start()

    def stall(self, until_ms: int, for_ms: int) -> None:
        """Stall the listener for ``for_ms`` in the next revocation before ``until_ms``."""
        self._stalls = (until_ms, for_ms)

    def _run_listener(self, machine: ConsumerMachine, kind: str, partitions: frozenset[TopicPartition]) -> None:
        until_ms, for_ms = self._stalls
        if kind != "revoked" or self.world.now_ms >= until_ms:
            super()._run_listener(machine, kind, partitions)
            return
        self._stalls = (0, 0)
        self.history.add(self.name, "listens", f"{for_ms} ms")
        self._watcher.revoking(self, partitions)
        self._listen_for(for_ms, machine, partitions)

    def _listen_for(self, for_ms: int, machine: ConsumerMachine, partitions: frozenset[TopicPartition]) -> None:
        self.listens = True
        self.world.after(for_ms, lambda: self._listened(machine, partitions))

    def _listened(self, machine: ConsumerMachine, partitions: frozenset[TopicPartition]) -> None:
        """Finish the listener's callback, if its process still runs."""
        if self.machine is not machine:
            return
        if self.frozen:
            self._listen_for(self.frozen_until_ms - self.world.now_ms, machine, partitions)
            return
        self.listens = False
        super()._run_listener(machine, "revoked", partitions)
        self.step(Tick())
        self._poll_times_out(self._life)
