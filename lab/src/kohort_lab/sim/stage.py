"""What the actors of one run share: time and chance, the network between them, a history, and the checks that watch."""

from __future__ import annotations

from kohort_lab.sim.all_checks import AllChecks
from kohort_lab.sim.history import History
from kohort_lab.sim.network import Network
from kohort_lab.sim.tap import Tap
from kohort_lab.sim.world import World


class Stage:
    """Made before the actors, who are given it; ``decode_all``: the checks are told of every API, decoded. ``world``:
    one with other limits than the usual."""

    def __init__(
        self, seed: int, delay_ms: tuple[int, int], *, decode_all: bool = False, world: World | None = None
    ) -> None:
        self.world = world or World(seed)
        self.history = History(self.world)
        self.checks = AllChecks()
        self.tap = Tap(self.world, self.checks, everything=decode_all)
        self.network = Network(self.world, self.tap, delay_ms)
