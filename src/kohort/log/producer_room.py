"""How many producers all partitions of a process remember together: what anybody who may write can make grow, with a
new producer id in each batch.

Kafka has no such limit (KIP-936 is not in 4.4). A producer that is known goes on. At the limit those that were silent
for the longest are forgotten, but nobody who wrote within ``SILENT_MS``, nor has a transaction open: a client that
still repeats a batch was not silent for so long, and is known for what it wrote. Then new ones are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kohort.config import BrokerConfig
from kohort.errors import ApiError, ErrorCode
from kohort.log.producers import Producers
from kohort.notes import Note, warning
from kohort.wire.record_batch import BatchHeader

SILENT_MS: Final = 900_000
"""Longer than clients repeat a batch: ``delivery.timeout.ms`` is 2 minutes by default, librdkafka's 5."""
LOOK_EVERY_MS: Final = 1_000
SPARE: Final = 8
"""Room is made for an eighth of the limit, if there are as many that may be forgotten."""
ORDER_MS: Final = 60_000
NO_LIMIT: Final = -1


class ProducerRoom:
    """The room of one process. What is counted is an upper bound: partitions that went are seen by looking again."""

    def __init__(
        self,
        config: BrokerConfig,
        all_producers: Callable[[], Iterable[Producers]],
        tell: Callable[[Note], None] | None = None,
    ) -> None:
        self.expire_after_ms = config.producer_id_expiration_ms
        self._all_producers = all_producers
        self._tell = tell
        self._looked_ms: int | None = None
        self._refused_ms: int | None = None
        self.limit = config.kohort_producer_max_ids
        """How many there may be; -1 for no limit."""
        self.at_most = 0
        """How many there are, at most."""
        self.refused = 0
        """Batches of producers for which there was no room."""

    def check(self, header: BatchHeader, now_ms: int) -> None:
        """Count a producer that is new to a partition. Raises NOT_ENOUGH_REPLICAS, which every client takes for "not
        written, try again", where there is no room.

        What comes in the minute after a refusal must begin at a producer's first batch: else the second would be taken,
        and the first, which was refused, would be out of order.
        """
        if self.limit == NO_LIMIT:
            return
        if self.at_most >= self.limit and (self._looked_ms is None or now_ms - self._looked_ms >= LOOK_EVERY_MS):
            self._looked_ms = now_ms
            self._make_room(now_ms)
        refused_of_late = self._refused_ms is not None and now_ms - self._refused_ms < ORDER_MS
        if self.at_most >= self.limit or (refused_of_late and header.base_sequence > 0):
            if self.at_most >= self.limit:
                self._refused_ms = now_ms
            self.refused += 1
            problem = f"{self.limit} idempotent producers are remembered, and there is no room for another"
            if self._tell is not None:
                self._tell(warning(f"{problem} (kohort.producer.max.ids)", "producers"))
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{problem} (kohort.producer.max.ids); it may try again")
        self.at_most += 1

    @property
    def is_full(self) -> bool:
        """Whether nothing more is to be remembered that may as well be forgotten."""
        return self.limit != NO_LIMIT and self.at_most >= self.limit

    def count(self) -> None:
        """Look how many there are."""
        self.at_most = sum(map(len, self._all_producers()))

    def expire(self, now_ms: int) -> None:
        """Forget those that were silent for ``producer.id.expiration.ms``."""
        for producers in self._all_producers():
            producers.expire(now_ms, self.expire_after_ms)
        self.count()

    def _make_room(self, now_ms: int) -> None:
        """Forget those that were silent for half of the time, a quarter, and so on, until there is room."""
        self.count()
        surplus = self.at_most - (self.limit - self.limit // SPARE - 1)
        after_ms = self.expire_after_ms
        while surplus > 0 and after_ms:
            for producers in self._all_producers():
                gone = producers.expire(now_ms, after_ms, surplus)
                surplus -= gone
                self.at_most -= gone
            after_ms = max(after_ms // 2, SILENT_MS) if after_ms > SILENT_MS else 0
