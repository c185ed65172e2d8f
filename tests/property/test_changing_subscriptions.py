"""Members change their subscriptions at any time: finally, each subscribed partition is read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.machines.consumer_stage import ConsumerStage, User

TOPICS = ("t", "u", "v")
SUBSCRIPTIONS = ("t", "u", "tu", "uv", "tuv")
"""Topics of one letter."""
CHANGES = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(SUBSCRIPTIONS), st.sampled_from((0, 50, 500, 3_000))), max_size=6
)
"""Members, their new subscriptions, and the time until the next change."""
MEMBERS = [("classic", "range"), ("classic", "cooperative-sticky"), ("consumer", None)]


def subscribe(user: User, topics: str, *, by_pattern: bool) -> None:
    user.machine.subscribe(re.compile(f"[{topics}]") if by_pattern else list(topics))


@pytest.mark.parametrize(("protocol", "strategy"), MEMBERS)
@given(
    first=st.tuples(st.sampled_from(SUBSCRIPTIONS), st.sampled_from(SUBSCRIPTIONS)),
    by_pattern=st.tuples(st.booleans(), st.booleans()),
    changes=CHANGES,
    late=st.booleans(),
)
@settings(max_examples=20)
def test_changed_subscriptions_finally_assign_all_topics(protocol, strategy, first, by_pattern, changes, late):
    """``late``: one of the topics is made after everything else."""
    stage = ConsumerStage(auto_create_topics_enable="false")
    for topic in TOPICS[: 2 if late else 3]:
        stage.topic(topic, 2)
    assignors = {} if strategy is None else {"partition_assignment_strategy": strategy}
    users = [stage.user(group_id="g", group_protocol=protocol, metadata_max_age_ms=2_000, **assignors) for _ in first]
    subscriptions = list(first)
    for at, user in enumerate(users):
        subscribe(user, subscriptions[at], by_pattern=by_pattern[at])

    for at, what, polls_ms in changes:
        subscriptions[at] = what
        subscribe(users[at], what, by_pattern=by_pattern[at])
        stage.polls(polls_ms)
    if late:
        stage.topic("v", 2)

    stage.until(lambda: is_shared([user.owned for user in users], subscriptions), 120_000)


def is_shared(owned: list[str], subscriptions: list[str]) -> bool:
    """Return True if each subscribed partition has one owner and each member owns a part of its topics."""
    had = [set(partitions.split()) for partitions in owned]
    fits = all({partition[0] for partition in had[at]} <= set(subscriptions[at]) for at in (0, 1))
    every = {f"{topic}-{n}" for what in subscriptions for topic in what for n in (0, 1)}
    return fits and not had[0] & had[1] and had[0] | had[1] == every
