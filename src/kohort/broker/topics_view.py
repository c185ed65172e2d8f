"""What the coordinator may know of topics, read from the catalogue."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.log.topics import Topics


class CatalogueView:
    """The coordinator's ``TopicsView`` on the broker's topics."""

    __slots__ = ("_topics",)

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def topic_id(self, name: str) -> bytes | None:
        topic = self._topics.get(name)
        return topic.topic_id if topic is not None else None

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self._topics.by_id(topic_id)
        return topic.name if topic is not None else None

    def partition_count(self, name: str) -> int | None:
        topic = self._topics.get(name)
        return len(topic.partitions) if topic is not None else None

    def names(self) -> Iterable[str]:
        return (topic.name for topic in self._topics)

    def end_offset(self, name: str, partition: int) -> int | None:
        topic = self._topics.get(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return topic.partitions[partition].high_watermark

    def made_at_ms(self, name: str) -> int | None:
        topic = self._topics.get(name)
        return topic.made_at_ms if topic is not None else None

    @property
    def version(self) -> int:
        return self._topics.version
