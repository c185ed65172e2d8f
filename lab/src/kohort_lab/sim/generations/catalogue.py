"""The generations of Kafka's consumer groups that can be compared, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from kohort_lab.sim.generations.broker_group import BrokerGroup
from kohort_lab.sim.generations.group_world import GroupWorld, Setup
from kohort_lab.sim.generations.tree_group import TreeGroup


@dataclass(frozen=True, slots=True)
class GroupGeneration:
    """One way for a group to agree on who reads what."""

    name: str
    since: str
    """The version of Kafka that brought it."""
    what: str
    world: Callable[[Setup], GroupWorld]


GENERATIONS: Final = {
    generation.name: generation
    for generation in (
        GroupGeneration("zookeeper", "0.7", "every member claims its share in ZooKeeper by itself", TreeGroup),
        GroupGeneration(
            "eager",
            "0.9",
            "a coordinator on a broker; all give up everything, one member assigns",
            partial(BrokerGroup, partition_assignment_strategy=["range"]),
        ),
        GroupGeneration(
            "cooperative",
            "2.4",
            "the same, but members keep what does not move (KIP-429)",
            partial(BrokerGroup, partition_assignment_strategy=["cooperative-sticky"]),
        ),
        GroupGeneration(
            "consumer",
            "4.0",
            "the coordinator assigns, and tells each member alone (KIP-848)",
            partial(BrokerGroup, group_protocol="consumer"),
        ),
    )
}
