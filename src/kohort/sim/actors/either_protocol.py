"""A consumer as an actor that can be started with either group protocol: groups are converted member by member."""

from __future__ import annotations

from typing import Final

from kohort.client.consumer import Wanted
from kohort.config.client import ConsumerConfig
from kohort.sim.actors.consumers import ConsumerActor
from kohort.sim.stage import Stage

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


class EitherProtocol(ConsumerActor):
    """One member: ``configs`` and ``wants`` by group protocol; ``protocol``: with which it starts first."""

    def __init__(
        self, name: str, stage: Stage, configs: dict[str, ConsumerConfig], wants: dict[str, Wanted], protocol: str
    ) -> None:
        super().__init__(name, stage, configs[protocol], wants[protocol])
        self.protocol = protocol
        self._configs = configs
        self._wants = wants

    def convert(self) -> None:
        """Take the other protocol with the next start."""
        self.protocol = CLASSIC if self.protocol == CONSUMER else CONSUMER
        self.history.add(self.name, "will speak", self.protocol)

    def start(self) -> None:
        if not self.alive:
            self._config, self._topics = self._configs[self.protocol], self._wants[self.protocol]
        super().start()
