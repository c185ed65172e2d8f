"""Assignors that ``partition.assignment.strategy`` can name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kohort.assignors.cooperative import COOPERATIVE_STICKY
from kohort.assignors.extras import COPARTITIONED, RACK_AWARE, REDUNDANT
from kohort.assignors.range import RANGE
from kohort.assignors.roundrobin import ROUNDROBIN
from kohort.assignors.spec import Assignor
from kohort.assignors.sticky import STICKY
from kohort.errors import ConfigError

ASSIGNORS: Final = {a.name: a for a in (RANGE, ROUNDROBIN, STICKY, COOPERATIVE_STICKY)}
EXTRAS: Final = {a.name: a for a in (COPARTITIONED, RACK_AWARE, REDUNDANT)}
"""kohort's own assignors as a dict with their names as keys.

A group can use them only if all its members offer them. Other Kafka clients lack these assignors.
"""


def assignors_named(given: Iterable[str | Assignor]) -> list[Assignor]:
    """Return the assignors for a list of names and Assignor objects, in the order of this list.

    Raises ConfigError for an unknown or repeated name.
    """
    known = ASSIGNORS | EXTRAS
    found: dict[str, Assignor] = {}
    for one in given:
        name = one.name if isinstance(one, Assignor) else one
        if not isinstance(one, Assignor) and name not in known:
            raise ConfigError(f"partition.assignment.strategy={name!r}: expected one of {', '.join(known)}")
        if name in found:
            raise ConfigError(f"partition.assignment.strategy names {name!r} twice")
        found[name] = one if isinstance(one, Assignor) else known[name]
    return list(found.values())


def is_cooperative(assignors: Sequence[Assignor]) -> bool:
    """Return True if all these assignors are cooperative. The member then keeps its partitions while it rejoins.

    The default list contains range, so members with this list are eager. Without range they are cooperative.
    """
    return all(assignor.cooperative for assignor in assignors)
