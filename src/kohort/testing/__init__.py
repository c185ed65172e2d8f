"""For the tests of programs that use Kafka: a broker per test, time that can be moved, faults that can be scripted.

``StagedBroker`` is the broker, and the pytest plugin hands one to each test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kohort.testing.script import Rule, SeenRequest
    from kohort.testing.staged import HeldRequests, StagedBroker

__all__ = ["HeldRequests", "Rule", "SeenRequest", "StagedBroker"]


def __getattr__(name: str) -> Any:
    """Imported when first used: pytest loads this package at every start, and most tests need no broker."""
    if name not in __all__:
        raise AttributeError(f"module 'kohort.testing' has no attribute {name!r}")
    from kohort.testing import script, staged

    return getattr(staged, name, None) or getattr(script, name)
