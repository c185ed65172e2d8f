"""What happens to a compacted log in every property test of one: segments end, the cleaner works, horizons pass."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from kohort.log.compaction import dirty_part
from kohort.log.partition import PartitionLog
from support.machines.log_stage import LogStage

HORIZON_MS = 3_600_000


class CompactingMachine(RuleBasedStateMachine):
    """``stage`` holds the log; who inherits appends to it and says what has to be there."""

    stage: LogStage

    @property
    def log(self) -> PartitionLog:
        return self.stage.log

    @precondition(lambda self: self.log.segments[-1].size)
    @rule()
    def roll(self) -> None:
        self.log.roll(self.stage.now_ms)

    @rule(ticks=st.integers(1, 60))
    def let_the_cleaner_work(self, ticks: int) -> None:
        for _ in range(ticks):
            self.stage.clock.advance(max(self.stage.topics.wake_at_ms - self.stage.now_ms, 0))
            self.stage.topics.tick(self.stage.now_ms)

    @rule()
    def let_horizons_pass(self) -> None:
        self.stage.clock.advance(HORIZON_MS)

    @rule()
    def stop_and_start(self) -> None:
        assert self.stage.restart() == []

    def compact_all_that_is_dirty(self) -> None:
        """Let the cleaner work until nothing is left for it to do."""
        cleaner = self.stage.topics._upkeep._cleaner
        for _ in range(1000):
            self.let_the_cleaner_work(1)
            if cleaner._now is None and not dirty_part(self.log, cleaner.clean_until(self.log.tp), 0).is_due(0):
                break
