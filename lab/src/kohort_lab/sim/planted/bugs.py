"""The registry of planted bugs: what each breaks, and how to plant it."""

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
    """One bug: ``what`` is wrong while it is planted, in which ``area``; the ``world`` is the one that must find it."""

    name: str
    area: str
    what: str
    plant: Plant
    world: str = GROUP

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Have the bug there until the block ends."""
        with Patch() as patch:
            self.plant(patch)
            yield


_BUGS: Final[dict[str, Bug]] = {}


def bug(area: str, what: str, world: str = GROUP) -> Callable[[Plant], Plant]:
    """Register a function that plants; its name, with dashes, is the bug's."""

    def register(plant: Plant) -> Plant:
        name = plant.__name__.replace("_", "-")
        assert name not in _BUGS, f"{name} is planted twice"
        _BUGS[name] = Bug(name, area, what, plant, world)
        return plant

    return register


def registered() -> dict[str, Bug]:
    """Return the bugs of the modules that are imported; ``catalogue.all_bugs`` imports them all."""
    return dict(_BUGS)
