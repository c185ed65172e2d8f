"""What a server-side assignor is given, and what it returns (KIP-848, protocol/assignors.md#server-side-assignors).

Unlike the assignors of clients these know topics by their ids, and begin from the previous target assignment: from
what members were meant to have, not from what they say they own. The list of them: ``SERVER_ASSIGNORS`` of ``builtin``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol


class MemberSpec(NamedTuple):
    """One member of a group, as an assignor sees it.

    ``topics`` are the ids (16 bytes) of the existing topics that it subscribes to, by name or by pattern; ``owned`` is
    its previous target: partitions by topic id. Kafka's assignors look at no rack. ``names`` are those that it
    subscribes to by name, existing or not, and ``regex`` is its expression: where names or expressions differ, or a
    member has both, ``uniform`` deals as to members with different topics.
    """

    topics: frozenset[bytes]
    owned: Mapping[bytes, frozenset[int]] = {}
    rack_id: str | None = None
    instance_id: str | None = None
    names: Collection[str] = frozenset()
    regex: str = ""


Targets = dict[str, dict[bytes, frozenset[int]]]
"""Member id, topic id, partitions: every member has an entry, a topic only where the member has partitions of it."""


class ServerAssignor(Protocol):
    """A server-side strategy by its name on the wire."""

    @property
    def name(self) -> str:
        """The name in ``group.consumer.assignors`` and in the heartbeat's ServerAssignor."""
        ...

    def assign(self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]) -> Targets:
        """Return the target of every member; a set that did not change is the one that was given.

        ``members`` by id; where Kafka's result depends on the order of a hash map, members that share a bucket come
        in the order given. ``iteration.as_kafka_keeps`` puts those of a group as Kafka does; a member that joins at
        this moment comes after them. So do topics, in the order of ``partition_counts``: ``iteration.in_name_order``.

        Raises UsageError if a member subscribes to a topic that ``partition_counts`` lacks.
        """
        ...
