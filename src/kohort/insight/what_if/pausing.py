"""For how long partitions would not be read, as a range, with what that rests on."""

from __future__ import annotations

from typing import NamedTuple

from kohort.insight.what_if.scenario import Assumptions, KillHow


class PauseRange(NamedTuple):
    """Partition-milliseconds, at best and at worst."""

    least: int = 0
    most: int = 0

    def plus(self, other: PauseRange) -> PauseRange:
        """Return both, added up."""
        return PauseRange(self.least + other.least, self.most + other.most)


def pause_of_step(manner: str, owned: int, moved: int, assume: Assumptions) -> PauseRange:
    """Return the pause of one change: ``owned`` partitions were read before, ``moved`` of them change hands."""
    if manner == "eager":
        return PauseRange(owned * assume.answer_ms, owned * (assume.answer_ms + assume.heartbeat_ms))
    beat = assume.heartbeat_ms if manner == "cooperative" else assume.modern_heartbeat_ms
    return PauseRange(moved * assume.answer_ms, moved * (assume.answer_ms + beat))


def pause_of_loss(how: KillHow, owned: int, assume: Assumptions, *, static: bool) -> PauseRange:
    """Return for how long the partitions of a member that ends wait before the coordinator gives it up."""
    if how == "poll":
        return PauseRange(owned * assume.max_poll_interval_ms, owned * assume.max_poll_interval_ms)
    if how == "close" and not static:
        return PauseRange()
    least = max(0, assume.session_timeout_ms - assume.heartbeat_ms)
    return PauseRange(owned * least, owned * assume.session_timeout_ms)


def pause_of_absence(owned: int, assume: Assumptions) -> PauseRange:
    """Return the pause while static members are restarted and keep what they have."""
    return PauseRange(owned * assume.restart_from_ms, owned * assume.restart_to_ms)


def told_assumptions(manner: str, assume: Assumptions) -> list[str]:
    """Return what a prediction rests on, in sentences."""
    beat = (assume.modern_heartbeat_ms if manner == "consumer" else assume.heartbeat_ms) / 1000
    who = {
        "eager": "all partitions pause in each rebalance (eager)",
        "cooperative": "only partitions that move pause (cooperative)",
        "consumer": "only partitions that move pause (consumer protocol)",
    }
    return [
        f"{who[manner]}, for {assume.answer_ms / 1000:g} to {assume.answer_ms / 1000 + beat:g} s each time: members "
        f"hear of it with a heartbeat, every {beat:g} s, and poll without delay",
    ]
