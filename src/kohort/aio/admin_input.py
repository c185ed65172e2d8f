"""What an admin client is given, as its operations take it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kohort.client.admin.model import NewTopic
from kohort.errors import UsageError

Topics = Mapping[str, int] | Iterable[NewTopic | str]


def new_topics(topics: Topics) -> list[NewTopic]:
    """Return what to create. Raises UsageError for a bare string."""
    if isinstance(topics, Mapping):
        return [NewTopic(name, partitions) for name, partitions in topics.items()]
    if isinstance(topics, str):
        raise UsageError(f"topics are a mapping or a list; for one topic: [{topics!r}]")
    return [topic if isinstance(topic, NewTopic) else NewTopic(topic) for topic in topics]


def names_of(names: Iterable[str]) -> list[str]:
    """Return a list of names. A bare string is refused: its letters are names too, and rarely meant."""
    if isinstance(names, str):
        raise UsageError(f"names are a list; for one name: [{names!r}]")
    return list(names)
