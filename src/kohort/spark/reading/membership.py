"""The driver of a query as a member of its consumer group, for ``group.mode=member``.

The member reads nothing itself: its partitions are paused as they come, and Spark's tasks fetch them. Heartbeats go on
in the background; a rebalance goes on only inside ``poll``, between micro-batches.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from kohort.errors import KohortError
from kohort.model import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kohort.spark.options.source import SourceOptions

log = logging.getLogger(__name__)

GiveUp = Callable[[Collection[TopicPartition]], None]
"""Called with partitions that go to others, while they can still be committed."""
_CLOSE_MS: Final = 5_000


class GroupMembership(Protocol):
    """What the source asks of its membership."""

    @property
    def held(self) -> set[TopicPartition]:
        """The partitions that the group has given to this member."""

    def poll(self, wait_ms: int, give_up: GiveUp) -> set[TopicPartition]:
        """Go on with a due rebalance, for as long as ``wait_ms`` if nothing is held. Return what came."""

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit as this member, in its generation. Raises CommitFailed where the group has gone on without it."""

    def close(self) -> None:
        """Leave the group."""


class DriverMembership:
    """A consumer that is subscribed to the query's topics, all of them paused."""

    def __init__(self, options: SourceOptions) -> None:
        import re

        from kohort.aio.consuming.consumer import Consumer

        # What stays with a member stays through a rebalance, so that its micro-batches go on (KIP-429); where the
        # coordinator assigns, that is always so (KIP-848).
        assigns = options.client.get("group.protocol") != "consumer"
        settings: dict[str, Any] = {
            "client.id": "kohort-spark",
            **({"partition.assignment.strategy": "cooperative-sticky"} if assigns else {}),
            **options.client,
            "bootstrap.servers": options.bootstrap_servers,
            "group.id": options.group_id,
            "enable.auto.commit": False,
        }
        self.held: set[TopicPartition] = set()
        self._came: set[TopicPartition] = set()
        self._give_up: GiveUp = lambda _: None
        self._consumer = Consumer(settings)
        topics = re.compile(options.subscribe_pattern) if options.subscribe_pattern else options.subscribe
        self._consumer.subscribe(topics, self)
        _exit_on_sigterm()

    def poll(self, wait_ms: int, give_up: GiveUp) -> set[TopicPartition]:
        self._give_up, self._came = give_up, set()
        try:
            self._consumer.poll(wait_ms, max_records=1)
        except KohortError as error:
            if not error.retriable:
                raise
            log.warning("group %s: %s; tried again at the next trigger", self._consumer.config.group_id, error)
        return self._came & self.held

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._consumer.commit(dict(offsets))

    def close(self) -> None:
        self._consumer.close(timeout_ms=_CLOSE_MS)

    # What the consumer tells, inside poll

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self._consumer.pause(partitions)
        self.held |= set(partitions)
        self._came |= set(partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        try:
            self._give_up(partitions)
        finally:
            self.held -= set(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        names = ", ".join(map(str, sorted(partitions)))
        log.warning("group %s has gone on without this query: %s lost", self._consumer.config.group_id, names)
        self.held -= set(partitions)


def _exit_on_sigterm() -> None:
    """Exit in order at SIGTERM, by which Spark ends the process of a source when its query stops: it leaves the
    group."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
