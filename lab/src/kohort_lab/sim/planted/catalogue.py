"""Catalogue of planted bugs."""

from __future__ import annotations

from kohort_lab.sim.planted import coordinator, fetcher, log, membership, modern, offsets, security
from kohort_lab.sim.planted.bugs import Bug, registered

AREAS = (coordinator, offsets, log, membership, fetcher, security, modern)
"""Modules that register bugs on import."""


def all_bugs() -> dict[str, Bug]:
    """Return every planted bug by name, in the order of areas."""
    areas = [area.__name__.rpartition(".")[2] for area in AREAS]
    return dict(sorted(registered().items(), key=lambda item: areas.index(item[1].area)))
