"""The strategies that ``partition.assignment.strategy`` can name, and what a list of them means together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kohort.assignors.cooperative import COOPERATIVE_STICKY
from kohort.assignors.range import RANGE
from kohort.assignors.roundrobin import ROUNDROBIN
from kohort.assignors.spec import Assignor
from kohort.assignors.sticky import STICKY
from kohort.errors import ConfigError

ASSIGNORS: Final = {a.name: a for a in (RANGE, ROUNDROBIN, STICKY, COOPERATIVE_STICKY)}


def assignors_named(names: Iterable[str]) -> list[Assignor]:
    """The assignors in the order given. Raises ConfigError for a name that does not exist or stands twice."""
    found: dict[str, Assignor] = {}
    for name in names:
        if name not in ASSIGNORS:
            raise ConfigError(f"partition.assignment.strategy={name!r}: expected one of {', '.join(ASSIGNORS)}")
        if name in found:
            raise ConfigError(f"partition.assignment.strategy names {name!r} twice")
        found[name] = ASSIGNORS[name]
    return list(found.values())


def is_cooperative(assignors: Sequence[Assignor]) -> bool:
    """Whether members keep their partitions while they rejoin: only if every configured assignor can live with that.

    So the default list is eager until range is taken out of it, which is how a group is upgraded member by member.
    """
    return all(assignor.cooperative for assignor in assignors)
