"""States of a consumer group member, as in Kafka's consumer, and the allowed transitions (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ConsumerMemberState(Enum):
    UNSUBSCRIBED = "UNSUBSCRIBED"
    """Neither member nor joining the group."""
    JOINING = "JOINING"
    """The next or the in-flight heartbeat has epoch 0."""
    RECONCILING = "RECONCILING"
    """Owned partitions differ from the target assignment: metadata or callbacks are missing."""
    ACKNOWLEDGING = "ACKNOWLEDGING"
    """The next heartbeat acknowledges the owned partitions."""
    STABLE = "STABLE"
    """Owned partitions equal the target assignment."""
    FENCED = "FENCED"
    """The coordinator rejected the member epoch; the lost callback is due."""
    PREPARE_LEAVING = "PREPARE_LEAVING"
    """The revoked callback runs before the member leaves."""
    LEAVING = "LEAVING"
    """The last heartbeat is due."""
    STALE = "STALE"
    """Left after max.poll.interval.ms without a poll; the next poll joins again."""
    FATAL = "FATAL"
    """Permanent error; the next poll after the raised error joins again."""


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
