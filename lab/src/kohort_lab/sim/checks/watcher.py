"""Events that checks receive: a check is a subclass of Watcher."""

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
    """Consumer as checks see it."""

    name: str
    poll_end_ms: int
    """Time of the user's last return from poll(), in ms."""
    frozen_until_ms: int
    """End time of the last freeze of the process, in ms."""

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
    def is_delayed(self) -> bool: ...
    @property
    def is_rebalancing(self) -> bool: ...
    @property
    def polls(self) -> bool: ...
    @property
    def max_poll_interval_ms(self) -> int: ...


class WatchedProcess(Protocol):
    """Broker process as checks see it."""

    @property
    def brokers(self) -> Sequence[Broker]:
        """Machines of the running nodes."""


@dataclass(slots=True, eq=False)
class Exchange:
    """Request on the wire. ``asked`` and ``answer`` are decoded for the APIs that checks need, else None."""

    client: str
    link_id: int
    api: Api
    version: int
    correlation_id: int
    sent_ms: int
    request: Message | None = None
    answer: Message | None = None
    answered_ms: int = -1

    @property
    def error(self) -> ErrorCode:
        """Top-level error code of the response."""
        return ErrorCode(getattr(self.answer, "error_code", 0))


class Watcher:
    """Receiver of events; each method may raise CheckFailed, and none changes the run."""

    hears_all: ClassVar[bool] = False
    """True to receive exchanges without decoded messages, too."""

    def sends(self, who: str, partition: TopicPartition, value: bytes) -> None:
        """Handle a record that a user passes to its producer."""

    def took(self, consumer: WatchedConsumer, generation_id: int, owned: frozenset[TopicPartition]) -> None:
        """Handle an assignment that a consumer applies; it owns exactly ``owned``."""

    def revoking(self, consumer: WatchedConsumer, partitions: frozenset[TopicPartition]) -> None:
        """Handle the start of a revocation callback, which takes time."""

    def revoked(self, consumer: WatchedConsumer, kind: str, partitions: frozenset[TopicPartition]) -> None:
        """Handle the end of a callback (revoked or lost), or of the process."""

    def read(self, consumer: WatchedConsumer, records: list[Record]) -> None:
        """Handle records that a user receives."""

    def sought(self, consumer: WatchedConsumer, partition: TopicPartition, offset: int) -> None:
        """Handle a seek back to ``offset``."""

    def committed(self, consumer: WatchedConsumer, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Handle an acknowledged commit of the user."""

    def requested(self, exchange: Exchange) -> None:
        """Handle a sent request; only decoded ones, unless ``hears_all``."""

    def answered(self, exchange: Exchange) -> None:
        """Handle a sent response; only decoded ones, unless ``hears_all``."""

    def answered_dead_client(self, exchange: Exchange) -> None:
        """Handle a response to a client that is dead or disconnected."""

    def broker_started(self, broker: WatchedProcess) -> None:
        """Handle the start of a broker process, after the recovery of its disk."""

    def broker_dies(self, broker: WatchedProcess, *, writing: bool) -> None:
        """Handle the coming death of a broker process; ``writing``: during a write."""

    def leaders_moved(self) -> None:
        """Handle moved coordinators; volatile state such as a rebalance in flight is lost."""
