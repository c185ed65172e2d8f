"""Admin calls during a script: alter the group's options; create, grow and delete topics."""

from __future__ import annotations

import random

from kohort.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.differential.modern.both import DELETE, SET, Both
from support.waiting import eventually

INTERVAL = "consumer.assignment.interval.ms"
VALUES: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    (INTERVAL, ("15000", "15000", "0", "0", None, "-1", "15001")),
    ("consumer.heartbeat.interval.ms", ("4000", "6000", None, "99", "1000000", "many")),
    ("consumer.session.timeout.ms", ("50000", "60000", None, "1", "499", "")),
    ("consumer.no.such.option", ("1",)),
)
"""Values to set; None removes the option."""


class Administrator:
    """An administrator that alters group options and topics on both brokers."""

    def __init__(self, both: Both, chance: random.Random, group: str, sizes: dict[str, int]) -> None:
        self.both = both
        self.chance = chance
        self.group = group
        self.sizes = sizes

    def alter_options(self) -> None:
        """Alter an option of the group on both brokers; it is in force on return."""
        name, values = self.chance.choice((*VALUES[:3], *VALUES[:1], *VALUES))
        self._alter(name, self.chance.choice(values))

    def assign_at_once(self) -> None:
        """Remove a delay of assignments."""
        self._alter(INTERVAL, "0")

    def _alter(self, name: str, value: str | None) -> None:
        config = AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
        resource = AlterConfigsResource(
            resource_type=ConfigResourceType.GROUP, resource_name=self.group, configs=[config]
        )
        answer = self.both.ask("admin", IncrementalAlterConfigsRequest(resources=[resource]), 1)["admin"]
        if answer.responses[0].error_code == 0:
            eventually(lambda: self._observed(name) == self._ours(name), f"{name} of {self.group} is not altered")
            self.both.theirs.await_earlier_requests(self.group)

    def _question(self, name: str) -> DescribeConfigsRequest:
        resource = DescribeConfigsResource(
            resource_type=ConfigResourceType.GROUP, resource_name=self.group, configuration_keys=[name]
        )
        return DescribeConfigsRequest(resources=[resource])

    def _observed(self, name: str) -> list[str | None]:
        return [config.value for config in self.both.theirs.ask(self._question(name), 4).results[0].configs]

    def _ours(self, name: str) -> list[str | None]:
        return [config.value for config in self.both.ours_alone(self._question(name), 4).results[0].configs]

    def change_topics(self) -> None:
        """Create, grow or delete a topic; wait until Kafka's coordinator knows."""
        deleted = [topic for topic in (f"{name}-{self.both.mark}" for name in "abcd") if topic not in self.sizes]
        kind = self.chance.random()
        if deleted and (kind < 0.4 or len(self.sizes) < 2):
            topic = self.chance.choice(deleted)
            self.sizes[topic] = self.chance.randint(1, 4)
            self.both.transcript.append(f"{topic} is made")
            self.both.create(topic.partition("-")[0], self.sizes[topic])
        elif kind < 0.7:
            topic = self.chance.choice([*self.sizes])
            self.sizes[topic] += self.chance.randint(1, 3)
            self.both.transcript.append(f"{topic} grows to {self.sizes[topic]}")
            self.both.grow(topic, self.sizes[topic])
        else:
            topic = self.chance.choice([*self.sizes])
            self.both.transcript.append(f"{topic} is deleted")
            self.both.delete(topic)
            del self.sizes[topic]
        self.both.await_partition_count(self.group, topic, self.sizes.get(topic, 0))
        self.both.theirs.await_earlier_requests(self.group)
