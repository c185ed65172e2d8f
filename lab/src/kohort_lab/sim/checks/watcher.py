"""What a check can be told of: a check is a watcher that overrides what it wants to hear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from kohort.broker.broker import Broker
from kohort.errors import ErrorCode
from kohort.model import OffsetAndMetadata, Record, TopicPartition
from kohort.wire.apis import Api
from kohort.wire.schema import Message


class WatchedConsumer(Protocol):
    """A consumer as checks see it."""

    name: str
    left_poll_ms: int
    """When its user last left poll()."""
    frozen_until_ms: int
    """When its process last went on after it had stood still."""

    @property
    def identity(self) -> str: ...
    @property
    def instance_id(self) -> str | None: ...
    @property
    def member_id(self) -> str: ...
    @property
    def generation_id(self) -> int: ...
    @property
    def assigned(self) -> set[TopicPartition]: ...
    @property
    def alive(self) -> bool: ...
    @property
    def is_held_up(self) -> bool: ...
    @property
    def is_rebalancing(self) -> bool: ...
    @property
    def polls(self) -> bool: ...
    @property
    def max_poll_interval_ms(self) -> int: ...


class WatchedProcess(Protocol):
    """A process of brokers as checks see it."""

    @property
    def brokers(self) -> Sequence[Broker]:
        """The machines of the nodes that are up."""


@dataclass(slots=True, eq=False)
class Exchange:
    """A request on the wire. ``asked`` and ``answer`` are decoded for the APIs that checks look at, None for others."""

    client: str
    link_id: int
    api: Api
    version: int
    correlation_id: int
    sent_ms: int
    asked: Message | None = None
    answer: Message | None = None
    answered_ms: int = -1

    @property
    def error(self) -> ErrorCode:
        """The error of the answer as a whole."""
        return ErrorCode(getattr(self.answer, "error_code", 0))


class Watcher:
    """Every method may raise CheckFailed; none changes the run."""

    hears_all: ClassVar[bool] = False
    """Whether it is told of exchanges as well of which nothing is decoded."""

    def sends(self, who: str, partition: TopicPartition, value: bytes) -> None:
        """Hear that a user has handed a record to its producer."""

    def took(self, consumer: WatchedConsumer, generation_id: int, owned: frozenset[TopicPartition]) -> None:
        """Hear that a consumer has taken its assignment and owns ``owned`` from now on."""

    def is_told(self, consumer: WatchedConsumer, partitions: frozenset[TopicPartition]) -> None:
        """Hear that a consumer tells its user to give partitions up, which takes a while."""

    def gave_up(self, consumer: WatchedConsumer, kind: str, partitions: frozenset[TopicPartition]) -> None:
        """Hear that a consumer has told its user what is gone: revoked, lost, or the process ended."""

    def read(self, consumer: WatchedConsumer, records: list[Record]) -> None:
        """Hear that records were handed out to the user."""

    def sought(self, consumer: WatchedConsumer, partition: TopicPartition, offset: int) -> None:
        """Hear that the user reads on from ``offset``, which is before its position."""

    def committed(self, consumer: WatchedConsumer, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Hear that a commit of the user's own was acknowledged."""

    def asked(self, exchange: Exchange) -> None:
        """Hear that a client has sent a request: one that is decoded, unless it hears of all."""

    def answered(self, exchange: Exchange) -> None:
        """Hear that a broker has answered one: the request or the answer is decoded, unless it hears of all."""

    def answered_nobody(self, exchange: Exchange) -> None:
        """Hear that a broker has answered one whose client is gone, which it does not know yet."""

    def broker_started(self, broker: WatchedProcess) -> None:
        """Hear that a broker has recovered its disk and serves."""

    def broker_dies(self, broker: WatchedProcess, *, writing: bool) -> None:
        """Hear that a broker is about to die; ``writing``: in the middle of a write."""

    def leaders_moved(self) -> None:
        """Other nodes may coordinate groups from now on, from what is written: a round under way is gone."""
