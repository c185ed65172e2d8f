"""Registry of planted bugs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from kohort_lab.sim.planted.patch import Patch

Plant = Callable[[Patch], None]
GROUP: Final = "group"


@dataclass(frozen=True, slots=True)
class Bug:
    """Planted bug: its description ``what``, its ``area``, and the ``world`` whose checks must catch it."""

    name: str
    area: str
    what: str
    plant: Plant
    world: str = GROUP

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Plant the bug for the duration of the block."""
        with Patch() as patch:
            self.plant(patch)
            yield


_BUGS: Final[dict[str, Bug]] = {}


def bug(area: str, what: str, world: str = GROUP) -> Callable[[Plant], Plant]:
    """Register a planting function; its name, with dashes, is the bug's name."""

    def register(plant: Plant) -> Plant:
        name = plant.__name__.replace("_", "-")
        assert name not in _BUGS, f"{name} is planted twice"
        _BUGS[name] = Bug(name, area, what, plant, world)
        return plant

    return register


def registered() -> dict[str, Bug]:
    """Return the bugs of all imported modules; ``catalogue.all_bugs`` imports every module."""
    return dict(_BUGS)
