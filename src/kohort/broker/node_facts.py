"""What a node knows of itself, for who asks by name (DescribeConfigs): never told among its options, where no other
broker has the like."""

from __future__ import annotations

from typing import Final

from kohort.broker.counters import BrokerCounters
from kohort.broker.topic_settings import STATIC_BROKER_CONFIG, Setting

LOADS: Final = "kohort.node.group.loads"
LOAD_AVG: Final = "kohort.node.group.load.avg.ms"
LOAD_MAX: Final = "kohort.node.group.load.max.ms"
LATE: Final = "kohort.node.late.ms"
LATE_MAX: Final = "kohort.node.late.max.ms"
FACTS: Final = {
    LOADS: "How many partitions of groups it has read from their log since it started.",
    LOAD_AVG: "How long that took on average; empty where it has read none.",
    LOAD_MAX: "How long the longest of these took.",
    LATE: "How late its loop was at most within the last one or two minutes.",
    LATE_MAX: "How late its loop was at most since it started.",
}
LONG: Final = 5
"""Kafka's number for the type."""


def node_facts(counters: BrokerCounters, now_ms: int) -> list[Setting]:
    """Return them, as settings that nobody can change."""
    values = {
        LOADS: counters.loads,
        LOAD_AVG: round(counters.load_ms_total / counters.loads) if counters.loads else "",
        LOAD_MAX: counters.load_ms_longest if counters.loads else "",
        LATE: counters.late.lately_ms(now_ms),
        LATE_MAX: counters.late.longest_ms,
    }
    return [
        Setting(name, str(values[name]), STATIC_BROKER_CONFIG, LONG, doc, (), read_only=True)
        for name, doc in FACTS.items()
    ]
