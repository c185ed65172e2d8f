"""The group coordinator's metrics of Apache Kafka (KIP-848), by the names that JMX exporters make of its beans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kohort.metrics.broker_copy import BrokerCopy
from kohort.metrics.page import Page

GROUPS: Final = "kafka_server_group_coordinator_metrics_"
MANAGER: Final = "kafka_coordinator_group_groupmetadatamanager_"
CONSUMER_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
CLASSIC_STATES: Final = ("Stable", "Empty", "Dead", "PreparingRebalance", "CompletingRebalance")


def add_brokers(page: Page, brokers: Sequence[BrokerCopy]) -> None:
    """Add what Kafka's coordinator tells, of each broker."""
    for one in brokers:
        node = one.node
        count = {
            protocol: sum(groups for (of, _), groups in one.groups.items() if of == protocol)
            for protocol in ("classic", "consumer")
        }
        for protocol, groups in count.items():
            page.add(f"{GROUPS}group_count", groups, node, protocol)
        for state in CONSUMER_STATES:
            page.add(f"{GROUPS}consumer_group_count", one.groups["consumer", state], node, state.lower())
        page.add(f"{GROUPS}classic_group_count", count["classic"], node)
        page.add(f"{GROUPS}offset_count", one.offsets, node)
        for what in ("committed", "expired", "deleted"):
            name = {"committed": "commit", "expired": "expiration", "deleted": "deletion"}[what]
            page.add(f"{GROUPS}offset_{name}_count", one.numbers[f"kohort_broker_offsets_{what}_total"], node)
        page.add(f"{GROUPS}group_completed_rebalance_count", one.journal.get("assignment_written", 0), node)
        page.add(f"{GROUPS}consumer_group_rebalance_count", one.journal.get("epoch_raised", 0), node)
        page.add(f"{GROUPS}partition_load_time_max", one.load_ms_longest, node)
        loads = one.numbers["kohort_broker_group_loads_total"]
        total_ms = one.numbers["kohort_broker_group_load_seconds_total"] * 1000
        page.add(f"{GROUPS}partition_load_time_avg", total_ms / loads if loads else 0, node)
        page.add(f"{MANAGER}numgroups", count["classic"], node)
        for state in CLASSIC_STATES:
            page.add(f"{MANAGER}numgroups{state.lower()}", one.groups["classic", state], node)
        page.add(f"{MANAGER}numoffsets", one.offsets, node)
