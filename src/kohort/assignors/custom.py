"""Strategies that users write: a plain function and a name.

    @kohort.assignor("by-size")
    def by_size(topics, members):
        return {m.member_id: [...] for m in members}

    Consumer(group_id="g", partition_assignment_strategy=[by_size, "range"])

All members of the group offer it by its name; the leader runs it. What it returns is checked before it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kohort.assignors.cooperative import changing_hands
from kohort.assignors.spec import Assignment, Assignor, MemberSubscription, SubscribedTopics, no_user_data
from kohort.errors import UsageError
from kohort.model import TopicPartition

AssignFunction = Callable[[SubscribedTopics, Sequence[MemberSubscription]], Mapping[str, Iterable[TopicPartition]]]
"""Takes the topics with their partition counts and the members; returns partitions by member id."""
UserData = Callable[[Iterable[TopicPartition], int], bytes | None]


def assignor(
    name: str, *, user_data: UserData = no_user_data, cooperative: bool = False
) -> Callable[[AssignFunction], Assignor]:
    """Make a strategy of the decorated function; give the result as a value of ``partition_assignment_strategy``.

    ``user_data(owned, generation)`` is what each member sends along when it joins (at most some KiB; None: nothing);
    the leader finds it as ``member.user_data``. ``cooperative``: members keep what they own while they rejoin, and a
    partition that changes hands is withheld for one round, so the function need not think of it.

    While the group is led, UsageError is raised from ``poll`` if the function fails, names a member or a partition
    that does not exist, or gives a partition to a member that does not subscribe to its topic.
    """

    def made(function: AssignFunction) -> Assignor:
        def assign(topics: SubscribedTopics, members: Sequence[MemberSubscription]) -> Assignment:
            found = _checked(name, _run(name, function, topics, members), topics, members)
            if cooperative:
                for partition, new_owner in changing_hands(members, found).items():
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
        raise UsageError(f"assignor {name!r} returned {type(given).__name__}: expected partitions by member id")
    wanted = {m.member_id: set(m.topics) for m in members}
    found: Assignment = {member_id: [] for member_id in wanted}
    for member_id, partitions in given.items():
        if member_id not in found:
            raise UsageError(f"assignor {name!r} named {member_id!r}, which is no member of the group")
        for topic, number in partitions:
            if not 0 <= number < topics.counts.get(topic, 0):
                raise UsageError(f"assignor {name!r} gave out {topic}-{number}, which does not exist")
            if topic not in wanted[member_id]:
                raise UsageError(f"assignor {name!r} gave {topic}-{number} to {member_id!r}, which does not want it")
            found[member_id].append(TopicPartition(topic, number))
    return found
