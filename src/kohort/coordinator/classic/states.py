"""The states of a classic group, as a table: the theory of them, for whoever edits it (protocol/groups.md).

What the states are
-------------------
Empty                Nobody is a member. There may be committed offsets, a written generation without members, and ids
                     that were handed out and did not come back yet. It says nothing of whether the group is written.
PreparingRebalance   The round is open: members join, each JoinGroup is parked until all are here or the time is up.
CompletingRebalance  The round is closed: everyone was told the generation and its leader. SyncGroups are parked until
                     the leader's brings the assignment.
Stable               The assignment is written. A SyncGroup is answered at once.
Dead                 This broker does not coordinate the group any more: whoever still holds it may do nothing with it.

Who may change them
-------------------
A state is part of the round, not of what is written. ``Round.move_to`` is the only way to another one, and asserts the
table below. ``Round.of`` begins at Stable or Empty, as the log says; dropping a round begins again there. Decisions
call ``move_to`` (rebalance.py opens and closes the round, sync.py makes it Stable), unloading makes it Dead
(shard.py). Replay changes no state: it changes ``ClassicGroup.persisted``.

Rules
-----
1. What waits in a state has a timer that ends the wait: the round timer in PreparingRebalance, the sync timer in
   CompletingRebalance (and in Stable, until the last member has request), a session timer for each member that has no
   request parked. ``invariants.check_waits`` holds it after every event.
2. No JoinGroup is parked outside of PreparingRebalance, and no SyncGroup outside of CompletingRebalance: whoever leaves
   one of these states answers, or refuses, all that is parked there.
3. Stable is entered with the record of the generation in the same outcome. If it cannot be appended, the round is
   dropped, and the state with it; so a Stable group is one that a failover would find as it is.
4. A generation begins with CompletingRebalance, or with Empty when nobody is left, and nowhere else.
5. To add a state, or a way: change the table, say here what may wait in it and which timer ends that, and see
   ``invariants.py``, ``describe.py`` (the name is shown to administrators) and ``make docs``, which draws the table.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class GroupState(Enum):
    """The value is the name on the wire."""

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
