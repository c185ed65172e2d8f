"""uniform: balanced first, then as little movement as that allows; topics and racks do not count.

The rules: protocol/assignors.md#server-side-assignors (Kafka's UniformAssignor).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.assignors.server.previous_targets import check_topics
from kohort.assignors.server.spec import MemberSpec, Targets
from kohort.assignors.server.uniform_equal import EqualTargets
from kohort.assignors.server.uniform_mixed import MixedTargets


class UniformAssignor:
    """Everyone has equally many partitions, or one more, as far as the subscriptions allow."""

    name: Final = "uniform"

    def assign(self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]) -> Targets:
        """Return the target of every member."""
        if not members:
            return {}
        check_topics(members, partition_counts)
        first = next(iter(members.values()))
        if all(_subscribes_as(first, member) for member in members.values()):
            return EqualTargets(first.topics, members, partition_counts).assign()
        return MixedTargets(members, partition_counts).assign()


def _subscribes_as(first: MemberSpec, member: MemberSpec) -> bool:
    if member.names and member.regex:
        return False
    return (member.topics, member.names, member.regex) == (first.topics, first.names, first.regex)


UNIFORM: Final = UniformAssignor()
