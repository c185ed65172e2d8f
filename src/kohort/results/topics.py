"""What ``kohort topics`` prints."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kohort.results.result import Result


class CreatedTopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that was created. ``partitions`` is -1 where the broker does not tell."""

    name: str
    topic_id: str
    partitions: int


class TopicsCreated(Result, frozen=True, kw_only=True, tag="kohort/v1/topics.create"):
    """The topics that were created."""

    LINES: ClassVar[str] = "created"

    created: list[CreatedTopicRow]


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in a line."""

    name: str
    topic_id: str
    partitions: int
    internal: bool


class TopicsListed(Result, frozen=True, kw_only=True, tag="kohort/v1/topics.list"):
    """Topics, by name."""

    LINES: ClassVar[str] = "topics"

    topics: list[TopicRow]


class TopicPartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A partition: who leads it (-1: nobody), and from where to where its records reach."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    log_start_offset: int
    log_end_offset: int

    @property
    def records(self) -> int:
        """Return how many offsets lie between its beginning and its end."""
        return self.log_end_offset - self.log_start_offset


class TopicAbout(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with its partitions, and the options that are not the defaults; null is a value that is secret."""

    name: str
    topic_id: str
    internal: bool
    configs: dict[str, str | None]
    partitions: list[TopicPartitionRow]


class TopicsDescribed(Result, frozen=True, kw_only=True, tag="kohort/v1/topics.describe"):
    """Topics with their partitions."""

    LINES: ClassVar[str] = "topics"

    topics: list[TopicAbout]


class TopicsDeleted(Result, frozen=True, kw_only=True, tag="kohort/v1/topics.delete"):
    """The names of the topics that were deleted."""

    deleted: list[str]
