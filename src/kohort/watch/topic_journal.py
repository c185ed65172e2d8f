"""A watcher's journal on the cluster itself, in ``__kohort_journal``, where everybody's commands find it.

Its keys and values are those of a kohort broker's journal. What is kept in the watcher's file is shipped from there, in
order, in transactions, each record with the id of its entry in a header: whoever goes on after a kill finds in the last
record how far that was, and its transactional id shuts out whoever still writes.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

from kohort.aio.admin import Admin
from kohort.aio.consuming.consumer import Consumer
from kohort.aio.producing.producer import Producer
from kohort.client.admin.model import ConfigResource, NewTopic
from kohort.coordinator.journal import TOPIC, JournalEntry, build_entry
from kohort.errors import ApiError, ApiTimeout, ErrorCode, KohortError, UsageError
from kohort.model import Record, TopicPartition
from kohort.watch.asking import ADMIN_MS
from kohort.watch.store import WatchStore

HEADER: Final = "kohort-watch"
"""Names the store and the entry in it that a record is of: ``STORE/ID``."""
MESSAGE_BYTES: Final = 1 << 24
TOPIC_OPTIONS: Final = {"cleanup.policy": "delete", "max.message.bytes": str(MESSAGE_BYTES)}
PRODUCER_OPTIONS: Final[Mapping[str, Any]] = {
    "transactional.id": "kohort-watch",
    "max.request.size": MESSAGE_BYTES,
    "buffer.memory": 4 * MESSAGE_BYTES,
}
"""What the producer needs: one transactional id for the cluster, since its journal has one writer."""
A_BROKERS_OWN: Final = "group.coordinator.max.bytes"
"""An option that only kohort's broker has, which keeps a journal itself."""
SHIPPED_AT_ONCE: Final = 500
LOOK_BACK: Final = 50
"""So many offsets before the end the last record is looked for: markers of transactions stand between."""
_PARTITION: Final = TopicPartition(TOPIC, 0)


class TopicJournal:
    """Ships a store's entries to the topic. The clients, the consumer of ``CONSUMER_OPTIONS``, stay the caller's."""

    def __init__(self, producer: Producer, store: WatchStore) -> None:
        self._producer, self._store = producer, store
        self._shipped, self._since_ms = 0, -1
        self._name = store.about("store_id") or uuid.uuid4().hex
        store.tell_about("store_id", self._name)

    def open(self, admin: Admin, consumer: Consumer, retention_ms: int) -> None:
        """Make the topic if it is not there, shut out any other writer, and find how far was shipped.

        Raises UsageError on a cluster that keeps the journal itself, KohortError where it may not be written.
        """
        _make_topic(admin, retention_ms)
        self._producer.init_transactions()
        last = _last_record(consumer)
        if last is None:
            return
        header = dict(last.headers).get(HEADER) or b""
        store, _, entry_id = header.decode("ascii", "replace").partition("/")
        if store == self._name and entry_id.isdigit():
            self._shipped = int(entry_id)
        else:  # another watcher's: what it has told of is not told again
            self._since_ms = last.timestamp_ms

    def ship(self) -> int:
        """Write what is new in the store; return how many entries. Raises ProducerFenced if another watcher writes."""
        count = 0
        while found := self._store.entries_since(self._shipped, SHIPPED_AT_ONCE):
            new = [(entry_id, entry) for entry_id, entry in found if entry.at_ms > self._since_ms]
            if new:
                with self._producer.transaction():
                    for entry_id, entry in new:
                        self._send(entry_id, entry)
            self._shipped = found[-1][0]
            count += len(new)
        return count

    def _send(self, entry_id: int, entry: JournalEntry) -> None:
        self._producer.send(
            TOPIC,
            build_entry(entry),
            entry.group.encode("utf-8", "surrogatepass"),
            partition=0,
            headers=[(HEADER, f"{self._name}/{entry_id}".encode())],
            timestamp_ms=max(0, entry.at_ms),
        )


def _make_topic(admin: Admin, retention_ms: int) -> None:
    node = ConfigResource("broker", str(admin.describe_cluster(timeout_ms=ADMIN_MS).controller_id))
    options = admin.describe_configs([node], timeout_ms=ADMIN_MS)
    if node not in options.errors and A_BROKERS_OWN in options[node]:
        raise UsageError(f"the brokers of this cluster are kohort's and keep {TOPIC} themselves: leave --to-topic out")
    topic = NewTopic(TOPIC, 1, -1, {**TOPIC_OPTIONS, "retention.ms": str(retention_ms)})
    error = admin.create_topics([topic], check=False, timeout_ms=ADMIN_MS).errors.get(TOPIC)
    if error is not None and not (isinstance(error, ApiError) and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
        raise KohortError(f"{TOPIC} cannot be made: {error}") from error
    deadline = time.monotonic() + ADMIN_MS / 1000
    while TOPIC in admin.describe_topics([TOPIC], timeout_ms=ADMIN_MS).errors:
        if time.monotonic() > deadline:
            raise ApiTimeout(f"{TOPIC} was made, but no broker led it within {ADMIN_MS // 1000} s")
        time.sleep(0.1)


def _last_record(consumer: Consumer) -> Record | None:
    """Return the last record of the journal, if there is any."""
    consumer.assign([_PARTITION])
    begin = consumer.beginning_offsets([_PARTITION], timeout_ms=ADMIN_MS)[_PARTITION]
    end = consumer.end_offsets([_PARTITION], timeout_ms=ADMIN_MS)[_PARTITION]
    reach, last = LOOK_BACK, None
    while last is None and end > begin:
        at = max(begin, end - reach)
        consumer.seek(_PARTITION, at)
        deadline = time.monotonic() + ADMIN_MS / 1000
        while consumer.position(_PARTITION, timeout_ms=ADMIN_MS) < end:
            last = next(reversed(consumer.poll(500)), last)
            if time.monotonic() > deadline:
                raise ApiTimeout(f"{TOPIC} could not be read to its end within {ADMIN_MS // 1000} s")
        if at == begin:
            break
        reach *= 10
    return last
