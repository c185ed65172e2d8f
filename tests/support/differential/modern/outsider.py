"""Requests about a consumer group from outside: offsets, and descriptions."""

from __future__ import annotations

import random
from typing import Any

from kohort.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.group_consumer import ConsumerGroupDescribeRequest
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.wire.schema import Message
from support.differential.modern.both import Both


class Outsider:
    """Sends requests about ``group``, in the name of members or of none."""

    def __init__(self, both: Both, chance: random.Random, group: str, topics: list[str]) -> None:
        self.both = both
        self.chance = chance
        self.group = group
        self.topics = topics

    def ask(self, message: Message, version: int) -> None:
        self.both.ask("outsider", message, version)

    def look(self) -> None:
        """Describe and list the group."""
        self.ask(ConsumerGroupDescribeRequest(group_ids=[self.group]), self.chance.randrange(2))

    def look_otherwise(self) -> None:
        group_ids = self.chance.choice(([self.group, ""], [f"none-{self.both.mark}", self.group]))
        types = self.chance.choice(([], ["consumer"], ["classic"], ["Consumer", "share"]))
        states = self.chance.choice(([], ["Stable"], ["reconciling", "Assigning"], ["Empty"]))
        message, version = self.chance.choice(
            (
                (ConsumerGroupDescribeRequest(group_ids=group_ids, include_authorized_operations=True), 1),
                (ListGroupsRequest(types_filter=types, states_filter=states), 5),
                (ListGroupsRequest(), 3),
                (DescribeGroupsRequest(groups=[self.group]), self.chance.randrange(7)),
            )
        )
        self.ask(message, version)

    def some_topics(self) -> list[str]:
        """Return one or two topics, existing or not."""
        return self.chance.sample(self.topics, self.chance.randint(1, 2))

    def id_of(self, topic: str) -> bytes:
        """Return the id of the latest topic of that name, or an unknown id."""
        name = topic.replace(self.both.mark, "*").removesuffix("-*")
        return {n: i for i, n in self.both.words.topics.items()}.get(name, b"\x02" * 16)

    def commit(self, member_id: str, epoch: int) -> None:
        """Commit for a member at an epoch; both may be invalid."""
        who: dict[str, Any] = {"member_id": member_id, "generation_id_or_member_epoch": epoch}
        who |= self.chance.choice(
            (
                {},
                {},
                {},
                {"generation_id_or_member_epoch": epoch - 1},
                {"generation_id_or_member_epoch": epoch - 1},
                {"generation_id_or_member_epoch": epoch + 1},
                {"generation_id_or_member_epoch": -1},
                {"generation_id_or_member_epoch": 0},
                {"member_id": "nobody"},
                {"member_id": "", "generation_id_or_member_epoch": -1},
                {"group_instance_id": "i1"},
            )
        )
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=self.id_of(topic),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=p, committed_offset=self.chance.randrange(99), committed_metadata="m"
                    )
                    for p in self.chance.sample(range(4), self.chance.randint(1, 3))
                ],
            )
            for topic in self.some_topics()
        ]
        version = self.chance.choice((9, 9, 10, 10, 8))
        self.ask(OffsetCommitRequest(group_id=self.group, topics=topics, **who), version)

    def fetch(self, member_id: str, epoch: int) -> None:
        who: dict[str, Any] = self.chance.choice(
            (
                {},
                {},
                {"member_id": member_id, "member_epoch": epoch},
                {"member_id": member_id, "member_epoch": epoch - 1},
                {"member_id": member_id},
                {"member_id": "nobody", "member_epoch": epoch},
                {"member_id": "", "member_epoch": -1},
            )
        )
        topics = [
            OffsetFetchRequestTopics(name=t, topic_id=self.id_of(t), partition_indexes=[0, 1, 2, 9])
            for t in self.some_topics()
        ]
        entry = OffsetFetchRequestGroup(
            group_id=self.group, topics=topics if self.chance.random() < 0.6 else None, **who
        )
        self.ask(OffsetFetchRequest(groups=[entry], require_stable=False), self.chance.choice((8, 9, 10)))

    def remove_offsets(self) -> None:
        partitions = [OffsetDeleteRequestPartition(partition_index=p) for p in (0, 1)]
        topics = [OffsetDeleteRequestTopic(name=t, partitions=partitions) for t in self.some_topics()]
        self.ask(OffsetDeleteRequest(group_id=self.group, topics=topics), 0)

    def remove_group(self) -> None:
        self.ask(DeleteGroupsRequest(groups_names=[self.group]), 3)
