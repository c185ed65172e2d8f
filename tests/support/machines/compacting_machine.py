"""Rules of property tests of compacted logs: roll segments, run the cleaner, pass retention times."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from kohort.log.compaction import dirty_part
from kohort.log.partition import PartitionLog
from support.machines.log_stage import LogStage

HORIZON_MS = 3_600_000


class CompactingMachine(RuleBasedStateMachine):
    """Base of state machines; ``stage`` holds the log, subclasses append and define the expected records."""

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
        """Run the cleaner until no segment is dirty."""
        cleaner = self.stage.topics._upkeep.cleaner
        for _ in range(1000):
            self.let_the_cleaner_work(1)
            if cleaner._now is None and not dirty_part(self.log, cleaner.clean_until.get(self.log.tp, 0), 0).is_due(0):
                break
