"""The shape of the table: what there is to say of a cause, and of an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseEntry:
    """A word that ``kohort group why`` may say, and all that is to be known of it.

    ``kind`` is whether it rebalances a group, is an event of the group without a rebalance, or tells of many
    rebalances together.
    """

    code: str
    sentence: str
    """What happened, in one sentence."""
    proof: str
    """What was seen that proves it, or on what it is concluded."""
    look_alikes: tuple[tuple[str, str], ...] = ()
    """Other causes that look the same from afar, and what tells them apart."""
    advice: str | None = None
    """What to do; None where nothing needs to be done."""
    kafka_log: str | None = None
    """What Apache Kafka's broker writes into its log then; None where it writes nothing of its own."""
    kind: Literal["rebalance", "event", "pattern"] = "rebalance"


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """What an error code of the protocol means for a member of a group, and what to do about it."""

    meaning: str
    advice: str
    causes: tuple[str, ...] = ()
    """Causes of rebalances that it comes with."""
