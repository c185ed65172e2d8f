"""Every planted bug there is."""

from __future__ import annotations

from kohort_lab.sim.planted import coordinator, fetcher, log, membership, modern, offsets, security
from kohort_lab.sim.planted.bugs import Bug, registered

AREAS = (coordinator, offsets, log, membership, fetcher, security, modern)
"""Importing them registers what they plant."""


def all_bugs() -> dict[str, Bug]:
    """Return every planted bug by its name, area by area."""
    areas = [area.__name__.rpartition(".")[2] for area in AREAS]
    return dict(sorted(registered().items(), key=lambda item: areas.index(item[1].area)))
