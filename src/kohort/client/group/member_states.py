"""Where a member of a group that the coordinator assigns stands, and from where it may go where (KIP-848).

The names are those of Kafka's consumer. Share groups know the same states, but for LEAVING_FOR_A_WHILE.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ConsumerMemberState(Enum):
    UNSUBSCRIBED = "UNSUBSCRIBED"
    """Not in the group, and not on the way there."""
    JOINING = "JOINING"
    """The next heartbeat, or the one under way, has epoch 0."""
    RECONCILING = "RECONCILING"
    """What is assigned is not what the member has yet: topics are to be known, the user is to hear."""
    ACKNOWLEDGING = "ACKNOWLEDGING"
    """The next heartbeat says what the member has now."""
    STABLE = "STABLE"
    """The member has what is assigned to it, as far as it knows."""
    FENCED = "FENCED"
    """The coordinator does not count this member in any more; the user is to hear that everything is lost."""
    PREPARE_LEAVING = "PREPARE_LEAVING"
    """The user hears, and the group does not know yet."""
    LEAVING = "LEAVING"
    """The goodbye is to be sent."""
    STALE = "STALE"
    """The user has not polled for too long: the member has left, and joins again when the user is back."""
    FATAL = "FATAL"
    """An error that no repetition mends; nothing is sent before the user has heard of it and polls again."""


_S: Final = ConsumerMemberState
PREVIOUS: Final[Mapping[ConsumerMemberState, frozenset[ConsumerMemberState]]] = {
    _S.UNSUBSCRIBED: frozenset({_S.LEAVING, _S.FENCED, _S.STALE, _S.FATAL}),
    _S.JOINING: frozenset({_S.UNSUBSCRIBED, _S.FENCED, _S.STALE, _S.FATAL}),
    _S.RECONCILING: frozenset({_S.JOINING, _S.ACKNOWLEDGING, _S.STABLE}),
    _S.ACKNOWLEDGING: frozenset({_S.RECONCILING}),
    _S.STABLE: frozenset({_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING}),
    _S.FENCED: frozenset({_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE, _S.PREPARE_LEAVING}),
    _S.PREPARE_LEAVING: frozenset({_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE}),
    _S.LEAVING: frozenset({_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE, _S.PREPARE_LEAVING}),
    _S.STALE: frozenset({_S.LEAVING}),
    _S.FATAL: frozenset({_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE, _S.PREPARE_LEAVING}),
}
IN_GROUP: Final = frozenset({_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE, _S.PREPARE_LEAVING})
