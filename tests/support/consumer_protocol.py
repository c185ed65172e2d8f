"""Encode subscriptions and assignments for members that send raw requests."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import Assignment, Subscription, build_assignment, build_subscription


def subscription(
    *topics: str, owned: Sequence[tuple[str, int]] = (), user_data: bytes | None = None, rack: str | None = None
) -> bytes:
    partitions = [TopicPartition(*p) for p in owned]
    return build_subscription(
        Subscription(list(topics), owned_partitions=partitions, user_data=user_data, rack_id=rack)
    )


def assignment(*partitions: tuple[str, int]) -> bytes:
    return build_assignment(Assignment([TopicPartition(*p) for p in partitions]))
