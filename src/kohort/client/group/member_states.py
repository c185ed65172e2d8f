"""States of a consumer group member, as in Kafka's consumer, and the allowed transitions (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ConsumerMemberState(Enum):
    UNSUBSCRIBED = "UNSUBSCRIBED"
    """The consumer is neither a member of a group nor joining one."""
    JOINING = "JOINING"
    """The member is joining: its current or next heartbeat has epoch 0."""
    RECONCILING = "RECONCILING"
    """Owned partitions differ from the target assignment; the member waits for topic names or listener callbacks."""
    ACKNOWLEDGING = "ACKNOWLEDGING"
    """The member's next heartbeat acknowledges its owned partitions."""
    STABLE = "STABLE"
    """Owned partitions equal the target assignment."""
    FENCED = "FENCED"
    """The coordinator fenced the member epoch; the callback for lost partitions is due."""
    PREPARE_LEAVING = "PREPARE_LEAVING"
    """The callback for revoked partitions is running; the member leaves after it."""
    LEAVING = "LEAVING"
    """The member's last heartbeat (epoch -1 or -2) is due."""
    STALE = "STALE"
    """The member left because ``poll()`` was not called within max.poll.interval.ms; the next poll joins again."""
    FATAL = "FATAL"
    """The membership ended with a permanent error, raised by one poll; the poll after that joins again."""


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
