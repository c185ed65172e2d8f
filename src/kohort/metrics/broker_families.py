"""The health of our own brokers, from copies of what they count."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from kohort.broker.counters import SIZES, Durations
from kohort.errors import ErrorCode
from kohort.metrics.broker_copy import NO_LIMIT, BrokerCopy, ProcessCopy
from kohort.metrics.page import Page, bounded
from kohort.version import VERSION

SHOWN_SIZES: Final = range(14, 37, 2)
"""Durations are told by powers of four, from 16 microseconds to 69 seconds."""
BOUNDS_S: Final = tuple(2**size / 1e9 for size in SHOWN_SIZES)
AT_ONCE: Final = 20
LOG: Final = {
    "batches": "kohort_log_batches_appended_total",
    "records": "kohort_log_records_appended_total",
    "bytes": "kohort_log_bytes_appended_total",
    "rolled_segments": "kohort_log_segments_rolled_total",
    "deleted_segments": "kohort_log_segments_deleted_total",
    "deleted_bytes": "kohort_log_bytes_deleted_total",
    "compactions": "kohort_log_compactions_total",
    "compacted_bytes": "kohort_log_bytes_compacted_total",
}


def add_brokers(page: Page, brokers: Sequence[BrokerCopy], cluster_id: str) -> None:
    """Add what each broker counts."""
    for one in brokers:
        node = one.node
        page.add("kohort_broker_info", 1, node, VERSION, cluster_id)
        for name, value in one.numbers.items():
            page.add(name, value, node)
        for budget, (used, limit) in one.budgets.items():
            page.add("kohort_broker_budget_used", used, node, budget)
            page.add("kohort_broker_budget_limit", None if limit == NO_LIMIT else limit, node, budget)
        for quota, ms in one.throttled_ms.items():
            page.add("kohort_broker_throttled_seconds_total", ms / 1000, node, quota)
        for (api, code), times in sorted(one.errors.items()):
            page.add("kohort_broker_request_errors_total", times, node, api, _error_name(code))
        page.add("kohort_broker_offsets", one.offsets, node)
        _add_counted(page, one)
        for api, took in sorted(one.took.items()):
            _add_durations(page, "kohort_broker_request_duration_seconds", took, node, api)


def add_fenced(page: Page, brokers: Sequence[BrokerCopy]) -> None:
    """Add which requests were refused in each group; one that has moved was refused at several brokers."""
    counted: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for one in brokers:
        for name, kinds in one.fenced_in.items():
            counted[name].update(kinds)
    for name, all_kinds in sorted(counted.items()):
        for (api, error), times in sorted(all_kinds.items()):
            page.add("kohort_group_fenced_requests_total", times, name, api, error)


def add_clients(page: Page, brokers: Sequence[BrokerCopy]) -> Iterator[None]:
    """Add what clients pushed, in steps; only what has no labels of its own, such as a topic."""
    for one in brokers:
        for many, report in enumerate(one.reports):
            about = report.client_instance_id, report.client_id, report.host, report.group or ""
            for told in report.values:
                if not told.labels:
                    page.add("kohort_client_metric", told.value, *about, told.name)
            if many % AT_ONCE == AT_ONCE - 1:
                yield


def _add_counted(page: Page, one: BrokerCopy) -> None:
    """Add what is a number for each of some words."""
    by_word: dict[str, Mapping[str, int]] = {
        "kohort_broker_connections_ended_total": one.ended,
        "kohort_broker_waiting_requests": one.waiting,
        "kohort_broker_budget_refusals_total": one.refusals,
        "kohort_broker_journal_entries_total": one.journal,
        "kohort_broker_client_pushes_total": one.pushes,
    }
    for name, counted in by_word.items():
        for word, times in sorted(counted.items()):
            page.add(name, times, one.node, word)
    by_two: dict[str, Mapping[tuple[str, str], int]] = {
        "kohort_broker_fenced_requests_total": one.fenced,
        "kohort_broker_groups": one.groups,
    }
    for name, pairs in by_two.items():
        for (first, second), times in sorted(pairs.items()):
            page.add(name, times, one.node, first, second)


def add_process(page: Page, process: ProcessCopy) -> None:
    """Add what is one for all brokers: the logs, and the loop."""
    page.add("kohort_log_topics", process.topics)
    page.add("kohort_log_partitions", process.partitions)
    page.add("kohort_log_segments", process.segments)
    page.add("kohort_log_size_bytes", process.size_bytes)
    for field, name in LOG.items():
        page.add(name, getattr(process.log, field))
    if process.flushes is not None:
        _add_durations(page, "kohort_log_flush_duration_seconds", process.flushes)
    if process.loop_lag is not None:
        _add_durations(page, "kohort_broker_loop_lag_seconds", process.loop_lag)


def _add_durations(page: Page, name: str, took: Durations, *labels: object) -> None:
    ends = [0, *(size + 1 for size in SHOWN_SIZES), SIZES]
    shown = [sum(took.by_size[since:until]) for since, until in pairwise(ends)]
    page.add_histogram(name, bounded(shown, BOUNDS_S), took.total_ns / 1e9, *labels)


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
