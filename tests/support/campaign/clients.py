"""Client programs of the campaign, and the actions that each supports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

EAGER: Final = "eager"
COOPERATIVE: Final = "cooperative"
CONSUMER: Final = "consumer"
STRATEGIES: Final = {EAGER: "range", COOPERATIVE: "cooperative-sticky", CONSUMER: "consumer"}


@dataclass(frozen=True, slots=True)
class CampaignClient:
    """A client: its program, its group protocols and its supported actions.

    ``leaves_on_stall``: the client leaves the group after ``max.poll.interval.ms`` without a poll.
    """

    name: str
    program: str
    protocols: tuple[str, ...]
    leaves_on_stall: bool = False
    enforces: bool = False
    patterns: tuple[str, ...] = ()
    returns: tuple[str, ...] = (EAGER, COOPERATIVE, CONSUMER)
    """Protocols in which a static member can return before its session ends."""


CLIENTS: Final = {
    client.name: client
    for client in (
        CampaignClient("kohort", "kohort", (EAGER, COOPERATIVE, CONSUMER), True, True, (EAGER, COOPERATIVE, CONSUMER)),
        CampaignClient(
            "librdkafka", "confluent-newest", (EAGER, COOPERATIVE, CONSUMER), True, False, (EAGER, COOPERATIVE)
        ),
        CampaignClient(
            "java", "java-player", (EAGER, COOPERATIVE, CONSUMER), True, True, (EAGER, COOPERATIVE, CONSUMER)
        ),
        # With the consumer protocol it sends no temporary leave of a static member: its instance id stays in use.
        CampaignClient(
            "franz",
            "go-franz",
            (EAGER, COOPERATIVE, CONSUMER),
            enforces=True,
            patterns=(EAGER, COOPERATIVE),
            returns=(EAGER, COOPERATIVE),
        ),
        CampaignClient("sarama", "go-sarama", (EAGER,)),
    )
}
