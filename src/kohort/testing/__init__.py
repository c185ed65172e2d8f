"""Tools for testing programs that use Kafka: a broker per test, a movable clock, scripted faults.

``StagedBroker`` is the broker; the pytest plugin provides one per test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kohort.testing.script import Rule, SeenRequest
    from kohort.testing.staged import HeldRequests, StagedBroker

__all__ = ["HeldRequests", "Rule", "SeenRequest", "StagedBroker"]


def __getattr__(name: str) -> Any:
    """Import names lazily: pytest loads this package at every start, and most tests need no broker."""
    if name not in __all__:
        raise AttributeError(f"module 'kohort.testing' has no attribute {name!r}")
    from kohort.testing import script, staged

    return getattr(staged, name, None) or getattr(script, name)
