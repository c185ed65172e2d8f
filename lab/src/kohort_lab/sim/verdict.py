"""Verdict of a run, in any world."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import Protocol

from kohort_lab.sim.actors.clients import ProducerActor
from kohort_lab.sim.checks.broken import CheckFailed, caught_by
from kohort_lab.sim.checks.group_invariants import InvariantBroken
from kohort_lab.sim.history import Happening, History
from kohort_lab.sim.swarm import Plan
from kohort_lab.sim.tap import Tap
from kohort_lab.sim.world import Storm, World


class Judged(Protocol):
    """Run of one seed."""

    plan: Plan
    world: World
    history: History
    tap: Tap
    producer: ProducerActor

    def go(self) -> None:
        """Run to the end. Raises CheckFailed, InvariantBroken, Storm, or a machine's error."""


@dataclass(slots=True)
class Verdict:
    """Result of a seed."""

    plan: Plan
    failure: str | None
    story: str
    events: int
    elapsed_ms: int
    counts: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0
    happenings: tuple[Happening, ...] = ()
    """Events; the last ones of a long run."""
    digest: str = ""
    """Checksum of all wire bytes; equal for equal runs."""
    caught_by: str = ""
    """Name of the failed check."""

    @property
    def passed(self) -> bool:
        return self.failure is None


def verdict_of(run: Judged) -> Verdict:
    """Run ``run`` to its end and return the verdict."""
    failure, check = None, ""
    try:
        run.go()
    except (CheckFailed, InvariantBroken, Storm) as broken:
        failure, check = str(broken), caught_by(broken)
    except Exception as error:  # noqa: BLE001 - whatever a machine raises is a failure of its seed
        failure, check = traceback.format_exc(), caught_by(error)
    return Verdict(
        plan=run.plan,
        failure=failure,
        story=run.history.tail(),
        happenings=tuple(run.history.lines),
        events=run.world.events,
        elapsed_ms=run.world.elapsed_ms,
        counts=dict(run.history.counts),
        acknowledged=len(run.producer.acknowledged),
        digest=run.tap.digest,
        caught_by=check,
    )
