"""State machine of a classic group."""

from itertools import product

import pytest

from kohort.coordinator.classic.round import Round
from kohort.coordinator.classic.states import GroupState, may_follow

E, P, C, S, D = (
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
)
LEGAL = {(E, P), (S, P), (C, P), (P, E), (P, C), (C, S)} | {(s, D) for s in GroupState}


@pytest.mark.parametrize(("previous", "state"), product(GroupState, GroupState), ids=lambda s: s.value)
def test_group_state_allows_only_the_documented_transitions(previous, state):
    rebalance = Round(previous, 0, 0)
    assert may_follow(state, previous) == ((previous, state) in LEGAL)
    if (previous, state) in LEGAL:
        rebalance.move_to(state, 5)
        assert (rebalance.state, rebalance.state_since_ms) == (state, 5)
    else:
        with pytest.raises(AssertionError):
            rebalance.move_to(state, 5)


def test_group_state_names_equal_those_in_kafkas_responses():
    assert [s.value for s in GroupState] == ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
