"""A coordinator with a watcher of its log: compare findings from outside with the coordinator's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kohort.coordinator.journal import JournalEntry, build_entry, parse_entry
from kohort.coordinator.records import KeyValue
from kohort.insight.findings.model import RebalanceFinding
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.observed.watching import ObservedGroups
from kohort.model import ProducerIdAndEpoch
from support.machines.coordinator_stage import CoordinatorStage


class WatchedStage(CoordinatorStage):
    """``seen``: journal entries of the watcher; ``journal``: those of the coordinator."""

    def __init__(self, **options: Any) -> None:
        self.watcher = ObservedGroups()
        self.leader_epoch = 0
        """Leader epoch of the records' partition; another coordinator has a higher one."""
        self.observed: list[JournalEntry] = []
        self.written: list[tuple[bytes, bytes | None, int]] = []
        """Keys, values and times of all records appended outside of transactions."""
        super().__init__(**options)

    def _append(
        self, partition: int, records: Sequence[KeyValue], now_ms: int, producer: ProducerIdAndEpoch | None = None
    ) -> None:
        super()._append(partition, records, now_ms, producer)
        self.watcher.learn_topics({topic_id: name for name, topic_id in self.topics.ids.items()})
        if producer is None:
            for key, value in records:
                self.written.append((key, value, now_ms))
                self.observed += self.watcher.take(key, value, now_ms, self.leader_epoch, late_ms=0)

    def findings(self) -> list[RebalanceFinding]:
        """Return findings from the watcher's encoded entries: never proven, always with a fact."""
        found = find_rebalances([parse_entry(build_entry(entry)) for entry in self.observed])
        assert all(entry.observed for entry in self.observed)
        assert all(one.origin == "inferred" and one.confidence != "proof" and one.evidence for one in found)
        return found
