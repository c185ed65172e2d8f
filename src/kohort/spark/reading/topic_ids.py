"""The ids of topics in a query's offsets, where Spark keeps them in the checkpoint.

A topic that is deleted and created again has the same name and another id (KIP-516), and offsets in it mean other
records. Offsets of versions without ids, and of brokers that give none, have no such key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kohort.spark.options.offsets import PartitionOffsets, by_partition

IDS_KEY: Final = "kohort:topics"
"""Stands among the topics of a query's offsets; no topic can have this name."""

TopicIds = dict[str, str]
"""The id of each topic, in hexadecimal."""


def known_ids(found: Mapping[str, bytes]) -> TopicIds:
    """Return the ids that a cluster gave; a broker without ids gives zeros."""
    return {topic: number.hex() for topic, number in sorted(found.items()) if any(number)}


def with_ids(offsets: Mapping[str, Mapping[str, int]], ids: Mapping[str, str]) -> dict[str, Any]:
    """Return offsets as Spark keeps them, with the ids of their topics."""
    known = {topic: ids[topic] for topic in offsets if topic in ids}
    return {IDS_KEY: known, **offsets} if known else dict(offsets)


def ids_of(offsets: Mapping[str, Mapping[str, Any]]) -> TopicIds:
    """Return the ids of the topics when these offsets were planned."""
    return dict(offsets.get(IDS_KEY, {}))


def other_topics(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """Return the names of topics whose ids differ."""
    return {topic for topic, number in now.items() if before.get(topic, number) != number}


def partitions_of(offsets: Mapping[str, Mapping[str, Any]]) -> PartitionOffsets:
    """Return the offsets alone, by partition."""
    return by_partition({topic: by for topic, by in offsets.items() if ":" not in topic})
