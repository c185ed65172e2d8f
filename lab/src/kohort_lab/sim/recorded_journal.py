"""The journal of a simulated run: what its brokers wrote about groups, in the order of their logs."""

from __future__ import annotations

from typing import Final

from kohort.coordinator.journal import JournalEntry
from kohort.insight.journal_reader import JournalReader
from kohort_lab.sim.checks.durability import records_on
from kohort_lab.sim.verdict import Verdict, verdict_of
from kohort_lab.sim.worlds.catalogue import WORLDS

TOPIC: Final = "__kohort_journal"


def journal_of_seed(world: str, seed: int) -> tuple[Verdict, list[JournalEntry]]:
    """Run a seed of a world, and return how it ended and the journal that its brokers have kept, oldest first."""
    kind = WORLDS[world]
    run = kind.simulation(kind.plan_of(seed))
    verdict = verdict_of(run)
    reader = JournalReader()
    for topic in run.topics() or ():
        if topic.name == TOPIC:
            for log in topic.partitions:
                for record in records_on(log):
                    reader.add(record.key, record.value)
    return verdict, sorted(reader.entries, key=lambda entry: entry.at_ms)
