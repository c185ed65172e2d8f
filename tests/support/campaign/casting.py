"""The clients that play in the campaign, and what each can be told to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

EAGER: Final = "eager"
COOPERATIVE: Final = "cooperative"
CONSUMER: Final = "consumer"
STRATEGIES: Final = {EAGER: "range", COOPERATIVE: "cooperative-sticky", CONSUMER: "consumer"}


@dataclass(frozen=True, slots=True)
class CampaignClient:
    """A client: its program, the protocols that it plays in, and what can be asked of it.

    ``leaves_on_stall``: it leaves where its user does not poll in time (max.poll.interval.ms).
    """

    name: str
    program: str
    protocols: tuple[str, ...]
    leaves_on_stall: bool = False
    enforces: bool = False
    patterns: tuple[str, ...] = ()
    returns: tuple[str, ...] = (EAGER, COOPERATIVE, CONSUMER)
    """The protocols in which a static member can come back before its session ends."""


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
        # As a static member of the new protocol it does not say that it goes for a while, and its instance id is taken.
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
