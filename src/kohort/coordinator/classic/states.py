"""States of a classic group and their transitions (protocol/groups.md).

States
------
Empty                No members. Offsets, an empty persisted generation and pending member ids may exist.
PreparingRebalance   Join phase: each JoinGroup waits until all members joined, or the timeout.
CompletingRebalance  Members know generation and leader. Each SyncGroup waits for that of the leader.
Stable               The assignment is persisted; the broker answers a SyncGroup at once.
Dead                 Another broker coordinates the group.

The state is volatile, part of the ``Round``: ``Round.move_to`` asserts the table below, ``Round.of`` begins at Stable
or Empty. rebalance.py begins and ends the join phase, sync.py makes the group Stable, shard.py makes it Dead. Replay
changes ``ClassicGroup.persisted``, never the state.

Rules
-----
1. Every wait has a timer (the simulator checks this): the rebalance timer in PreparingRebalance, the sync timer in
   CompletingRebalance and in Stable until the last SyncGroup, a session timer for each member without waiting request.
2. A JoinGroup waits in PreparingRebalance only, a SyncGroup in CompletingRebalance only: the end of the state answers
   all waiting requests.
3. A group becomes Stable in the decision that persists its generation. A failed append drops the rebalance with its
   state, so a failover finds every Stable group unchanged.
4. A generation begins with CompletingRebalance, or with Empty if no member is left.
5. For a new state or transition, extend the table below, rule 1 and ``group_invariants.py``, then run ``make docs``.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class GroupState(Enum):
    """State of a classic group. The enum value is the name of the state in responses."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


PREVIOUS: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}


def may_follow(state: GroupState, previous: GroupState) -> bool:
    return previous in PREVIOUS[state]
