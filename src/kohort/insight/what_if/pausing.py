"""For how long partitions would not be read, as a range, with what that rests on."""

from __future__ import annotations

from typing import NamedTuple

from kohort.insight.what_if.scenario import Assumptions, KillHow


class PauseRange(NamedTuple):
    """For how long one partition is not read, at best and at worst; milliseconds."""

    least: int = 0
    most: int = 0

    def plus(self, other: PauseRange) -> PauseRange:
        """Return both, added up."""
        return PauseRange(self.least + other.least, self.most + other.most)


def pause_of_step(manner: str, assume: Assumptions) -> PauseRange:
    """Return the pause of one change: in an eager group of every partition, else of each that changes hands."""
    beat = assume.modern_heartbeat_ms if manner == "consumer" else assume.heartbeat_ms
    return PauseRange(assume.answer_ms, assume.answer_ms + beat)


def pause_of_loss(how: KillHow, assume: Assumptions, *, static: bool) -> PauseRange:
    """Return for how long the partitions of a member that ends wait before the coordinator gives it up."""
    if how == "poll":
        return PauseRange(assume.max_poll_interval_ms, assume.max_poll_interval_ms)
    if how == "close" and not static:
        return PauseRange()
    return PauseRange(max(0, assume.session_timeout_ms - assume.heartbeat_ms), assume.session_timeout_ms)


def pause_of_absence(assume: Assumptions) -> PauseRange:
    """Return the pause while a process is restarted whose partitions nobody takes over."""
    return PauseRange(assume.restart_from_ms, assume.restart_to_ms)


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
