"""Topics with their partitions, offsets, and options that are not the defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.model import TopicPartition, uuid_to_text
from kohort.results.topics import TopicAbout, TopicPartitionRow
from kohort.watch.asking import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import ConfigEntry, TopicDescription


def topic_about(admin: Admin, topic: TopicDescription) -> TopicAbout:
    """Return a topic for JSON and for the table."""
    from kohort.client.admin.model import ConfigResource

    partitions = [TopicPartition(topic.name, p.partition) for p in topic.partitions]
    starts = admin.list_offsets(dict.fromkeys(partitions, "earliest"), timeout_ms=ADMIN_MS).check()
    ends = admin.list_offsets(dict.fromkeys(partitions, "latest"), timeout_ms=ADMIN_MS).check()
    resource = ConfigResource("topic", topic.name)
    configs: dict[str, ConfigEntry] = admin.describe_configs([resource], timeout_ms=ADMIN_MS).check()[resource]
    return TopicAbout(
        name=topic.name,
        topic_id=uuid_to_text(topic.topic_id),
        internal=topic.internal,
        configs={name: c.value for name, c in sorted(configs.items()) if not c.is_default},
        partitions=[
            TopicPartitionRow(
                partition=p.partition,
                leader=p.leader_id,
                leader_epoch=p.leader_epoch,
                replicas=list(p.replicas),
                isr=list(p.isr),
                log_start_offset=starts[tp].offset,
                log_end_offset=ends[tp].offset,
            )
            for p, tp in zip(topic.partitions, partitions, strict=True)
        ],
    )
