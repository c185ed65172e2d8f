"""A coordinator whose log is watched as it is written: what can be told from the outside, beside what it knows."""

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
    """``seen`` are the entries of the watcher, ``journal`` those of the coordinator."""

    def __init__(self, **options: Any) -> None:
        self.watcher = ObservedGroups()
        self.leader_epoch = 0
        """Of the partition of its records: of another coordinator it is higher."""
        self.seen: list[JournalEntry] = []
        self.written: list[tuple[bytes, bytes | None, int]] = []
        """Keys, values and times of all that was appended outside of transactions."""
        super().__init__(**options)

    def _append(
        self, partition: int, records: Sequence[KeyValue], now_ms: int, producer: ProducerIdAndEpoch | None = None
    ) -> None:
        super()._append(partition, records, now_ms, producer)
        self.watcher.learn_topics({topic_id: name for name, topic_id in self.topics.ids.items()})
        if producer is None:
            for key, value in records:
                self.written.append((key, value, now_ms))
                self.seen += self.watcher.take(key, value, now_ms, self.leader_epoch, late_ms=0)

    def findings(self) -> list[RebalanceFinding]:
        """What the watcher's entries tell, made from them as text: never a proof, and never without a fact."""
        found = find_rebalances([parse_entry(build_entry(entry)) for entry in self.seen])
        assert all(entry.observed for entry in self.seen)
        assert all(one.origin == "inferred" and one.confidence != "proof" and one.evidence for one in found)
        return found
