"""User-defined assignors: a function with a name.

    @kohort.assignor("by-size")
    def by_size(topics, members):
        return {m.member_id: [...] for m in members}

    Consumer(group_id="g", partition_assignment_strategy=[by_size, "range"])

All members of the group must offer the assignor. The group leader runs the function, and checks its result before it
sends its SyncGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kohort.assignors.cooperative import moving_partitions
from kohort.assignors.spec import Assignment, Assignor, MemberSubscription, SubscribedTopics, no_user_data
from kohort.errors import UsageError
from kohort.model import TopicPartition

AssignFunction = Callable[[SubscribedTopics, Sequence[MemberSubscription]], Mapping[str, Iterable[TopicPartition]]]
"""Function that gets topics (with partition counts) and members, and returns a dict: member id -> partitions."""
UserData = Callable[[Iterable[TopicPartition], int], bytes | None]


def assignor(
    name: str, *, user_data: UserData = no_user_data, cooperative: bool = False
) -> Callable[[AssignFunction], Assignor]:
    """Convert the decorated function to an assignor for ``partition_assignment_strategy``.

    ``user_data(owned, generation)`` returns bytes that each member sends in its JoinGroup (at most some KiB), or None.
    The leader's function finds them in ``member.user_data``. With ``cooperative`` members keep their partitions while
    they rejoin. Kohort then withholds each moving partition for one generation, so the function can ignore this.

    The leader's ``poll`` raises UsageError if the function raises an error, returns an unknown member or partition, or
    assigns a partition to a member that does not subscribe to the topic.
    """

    def made(function: AssignFunction) -> Assignor:
        def assign(topics: SubscribedTopics, members: Sequence[MemberSubscription]) -> Assignment:
            found = _checked(name, _run(name, function, topics, members), topics, members)
            if cooperative:
                for partition, new_owner in moving_partitions(members, found).items():
                    found[new_owner].remove(partition)
            return found

        return Assignor(name, assign, user_data, cooperative)

    return made


def _run(
    name: str, function: AssignFunction, topics: SubscribedTopics, members: Sequence[MemberSubscription]
) -> Mapping[str, Iterable[TopicPartition]]:
    try:
        return function(topics, members)
    except Exception as error:
        raise UsageError(f"assignor {name!r} failed: {error!r}") from error


def _checked(
    name: str,
    given: Mapping[str, Iterable[TopicPartition]],
    topics: SubscribedTopics,
    members: Sequence[MemberSubscription],
) -> Assignment:
    if not isinstance(given, Mapping):
        raise UsageError(
            f"assignor {name!r} returned {type(given).__name__}: expected a mapping of member ids to partitions"
        )
    subscribed = {m.member_id: set(m.topics) for m in members}
    found: Assignment = {member_id: [] for member_id in subscribed}
    for member_id, partitions in given.items():
        if member_id not in found:
            raise UsageError(f"assignor {name!r} returned {member_id!r}, which is not a member of the group")
        for topic, number in partitions:
            if not 0 <= number < topics.counts.get(topic, 0):
                raise UsageError(f"assignor {name!r} assigned {topic}-{number}, which does not exist")
            if topic not in subscribed[member_id]:
                raise UsageError(
                    f"assignor {name!r} assigned {topic}-{number} to {member_id!r}, which does not subscribe to {topic}"
                )
            found[member_id].append(TopicPartition(topic, number))
    return found
