"""The journal of group events as it grows: what there is, and then what comes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kohort.cli.cluster import ClusterAccess
from kohort.cli.exits import NothingThere
from kohort.cli.options import ADMIN_MS
from kohort.errors import ApiError, ErrorCode
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.coordinator.journal import JournalEntry

POLL_MS: Final = 500
SLACK_MS: Final = 60_000
"""An entry is written a moment after what it tells, by a clock that may not be ours."""


def follow_journal(cluster: ClusterAccess, group_id: str, since_ms: int = 0) -> Iterator[list[JournalEntry]]:
    """Yield the entries of a group that are there, as one list, and then those that come, without an end; an empty list
    each time that nothing came for a while. What was written before ``since_ms`` need not be among them.

    Raises NothingThere where no journal is kept, ApiError for who may not read it.
    """
    from kohort.coordinator.journal import TOPIC
    from kohort.insight.journal_reader import JOURNAL_OPTIONS, JournalReader

    with cluster.admin() as admin:
        results = admin.describe_topics([TOPIC], timeout_ms=ADMIN_MS)
        error = results.errors.get(TOPIC)
        if isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise NothingThere(f"{cluster.address} has no journal of rebalances: it is no kohort broker")
        partitions = [TopicPartition(TOPIC, p.partition) for p in results[TOPIC].partitions]
    reader = JournalReader(group_id)
    with cluster.consumer(JOURNAL_OPTIONS) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        ends = consumer.end_offsets(partitions)
        if since_ms > SLACK_MS:
            found = consumer.offsets_for_times(dict.fromkeys(partitions, since_ms - SLACK_MS))
            for partition in partitions:
                at = found.get(partition)
                consumer.seek(partition, ends[partition] if at is None else at.offset)
        begun = False
        while True:
            for record in consumer.poll(POLL_MS):
                reader.add(record.key, record.value)
            if not begun and any(consumer.position(p, timeout_ms=ADMIN_MS) < ends[p] for p in partitions):
                continue
            begun = True
            yield reader.entries
            reader.entries = []
