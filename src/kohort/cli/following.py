"""The journal of group events as it grows: what there is, and then what comes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kohort.cli.cluster import ClusterAccess
from kohort.cli.exits import NothingThere
from kohort.cli.options import ADMIN_MS
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.coordinator.journal import JournalEntry

POLL_MS: Final = 500


def follow_journal(cluster: ClusterAccess, group_id: str) -> Iterator[list[JournalEntry]]:
    """Yield the entries of a group that are there, as one list, and then those that come, without an end; an empty list
    each time that nothing came for a while. Raises NothingThere where no journal is kept."""
    from kohort.coordinator.journal import TOPIC
    from kohort.insight.journal_reader import JournalReader

    with cluster.admin() as admin:
        results = admin.describe_topics([TOPIC], timeout_ms=ADMIN_MS)
        if TOPIC in results.errors:
            raise NothingThere(f"{cluster.address} has no journal of rebalances: it is no kohort broker")
        partitions = [TopicPartition(TOPIC, p.partition) for p in results[TOPIC].partitions]
    reader = JournalReader(group_id)
    with cluster.consumer({"allow.auto.create.topics": False}) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        ends = consumer.end_offsets(partitions)
        begun = False
        while True:
            for record in consumer.poll(POLL_MS):
                reader.add(record.key, record.value)
            if not begun and any(consumer.position(p, timeout_ms=ADMIN_MS) < ends[p] for p in partitions):
                continue
            begun = True
            yield reader.entries
            reader.entries = []
