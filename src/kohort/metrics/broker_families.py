"""Metrics of kohort's own brokers: copies of broker counters at one moment, and the samples made from the copies.

The metric set ``jmx`` repeats some metrics under other names: those that JMX exporters give to the metrics of Apache
Kafka's group coordinator (KIP-848).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Final

from kohort.broker.broker import Broker
from kohort.broker.counters import SIZES, Durations
from kohort.errors import ErrorCode
from kohort.log.partition import LogCounters
from kohort.metrics.page import Page, bounded
from kohort.telemetry.report import ClientReport
from kohort.version import VERSION
from kohort.wire.apis import APIS

NO_LIMIT = -1
ARRIVING, UNREAD = "requests that arrive (queued.max.request.bytes)", "unread answers (queued.max.request.bytes)"
GROUPS, CONNECTIONS = "groups (group.coordinator.max.bytes)", "connections (max.connections)"
SESSIONS = "fetch sessions (max.incremental.fetch.session.cache.slots)"
SESSION_PARTITIONS = "partitions in fetch sessions"
PRODUCERS = "idempotent producers (kohort.producer.max.ids)"
TRANSACTIONS = "transactional ids (transaction.coordinator.max.bytes)"
ABORTED = "aborted transactions in memory"


@dataclass(slots=True)
class BrokerCopy:
    node: int
    took: dict[str, Durations]
    errors: dict[tuple[str, int], int]
    numbers: dict[str, float]
    ended: dict[str, int]
    waiting: dict[str, int]
    budgets: dict[str, tuple[float, float]]
    """Used amount and limit of each resource budget of the broker (key: name of the budget)."""
    refusals: dict[str, int]
    throttled_ms: dict[str, int]
    journal: dict[str, int]
    fenced: dict[tuple[str, str], int]
    load_ms_longest: int
    pushes: dict[str, int]
    fenced_in: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict)
    """Rejected requests of each group: one count for each pair of API and error. Deleted groups are missing."""
    groups: Counter[tuple[str, str]] = field(default_factory=Counter)
    offsets: int = 0
    reports: list[ClientReport] = field(default_factory=list)


@dataclass(slots=True)
class ProcessCopy:
    log: LogCounters
    topics: int = 0
    partitions: int = 0
    segments: int = 0
    size_bytes: int = 0
    flushes: Durations | None = None
    loop_lag: Durations | None = None


def copy_counters(broker: Broker, failed_handshakes: int) -> BrokerCopy:
    state, counts = broker.state, broker.state.counters
    offsets, connections, purgatory = state.coordinator.counters, state.connections, state.purgatory
    used = {key: api for key, api in counts.by_api.items() if api.took.total_ns or api.took.count}
    return BrokerCopy(
        node=state.node.node_id,
        took={APIS[key].name: api.took.copy() for key, api in used.items()},
        errors={(APIS[key].name, code): times for key, api in used.items() for code, times in api.errors.items()},
        numbers={
            "kohort_broker_received_bytes_total": counts.bytes_in,
            "kohort_broker_sent_bytes_total": counts.bytes_out,
            "kohort_broker_connections": len(connections),
            "kohort_broker_pushing_clients": len(state.client_metrics.instances),
            "kohort_broker_connections_opened_total": connections.opened,
            "kohort_broker_connections_refused_total": connections.refused,
            "kohort_broker_logins_total": counts.logins,
            "kohort_broker_failed_logins_total": counts.failed_logins,
            "kohort_broker_failed_handshakes_total": failed_handshakes,
            "kohort_broker_fetches_waited_total": purgatory.parked,
            "kohort_broker_fetches_expired_total": purgatory.expired,
            "kohort_broker_long_requests_total": broker.long_work.begun,
            "kohort_broker_offsets_committed_total": offsets.committed,
            "kohort_broker_offsets_expired_total": offsets.expired,
            "kohort_broker_offsets_deleted_total": offsets.deleted,
            "kohort_broker_group_loads_total": counts.loads,
            "kohort_broker_group_load_seconds_total": counts.load_ms_total / 1000,
            "kohort_broker_journal_entries_forgotten_total": counts.entries_forgotten,
        },
        ended=dict(counts.closed),
        waiting={"fetch": len(purgatory), "flush": len(state.flushes), "long": len(broker.long_work)},
        budgets=_budgets(broker),
        refusals={
            GROUPS: state.coordinator.budget.refused,
            UNREAD: state.unread.ended,
            PRODUCERS: state.topics.producer_room.refused,
            TRANSACTIONS: state.cluster.transactions.room.refused,
        },
        throttled_ms={quota.value: ms for quota, ms in state.quotas.throttled_ms.items()},
        journal={str(kind.__struct_config__.tag): times for kind, times in counts.journal.items()},
        fenced=dict(state.coordinator.fenced.by_kind),
        load_ms_longest=counts.load_ms_longest,
        pushes=asdict(state.client_metrics.instances.counts),
    )


def _budgets(broker: Broker) -> dict[str, tuple[float, float]]:
    state, connections = broker.state, broker.state.connections
    arriving, sessions, groups = connections.frame_budget, state.sessions, state.coordinator.budget
    producers, transactions = state.topics.producer_room, state.cluster.transactions.room
    return {
        CONNECTIONS: (len(connections), state.config.max_connections),
        ARRIVING: (arriving.used_bytes, arriving.limit),
        UNREAD: (state.unread.held_bytes, state.unread.limit),
        GROUPS: (groups.at_most, groups.limit),
        PRODUCERS: (producers.at_most, producers.limit),
        TRANSACTIONS: (transactions.used, transactions.limit),
        ABORTED: (state.topics.aborted_pages.used, state.topics.aborted_pages.limit),
        SESSIONS: (len(sessions), sessions.slots),
        SESSION_PARTITIONS: (sessions.partitions(), sessions.most_partitions),
    }


SHOWN_SIZES: Final = range(14, 37, 2)
"""Exponents of the bucket bounds of duration histograms, from 2**14 ns (16 microseconds) to 2**36 ns (69 seconds)."""
BOUNDS_S: Final = tuple(2**size / 1e9 for size in SHOWN_SIZES)
YIELD_EVERY: Final = 20
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


def add_fenced(page: Page, brokers: Sequence[BrokerCopy]) -> Iterator[None]:
    counted: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for one in brokers:
        for name, kinds in one.fenced_in.items():
            counted[name].update(kinds)
    for name, all_kinds in sorted(counted.items()):
        for (api, error), times in sorted(all_kinds.items()):
            page.add("kohort_group_fenced_requests_total", times, name, api, error)
        yield


def add_clients(page: Page, brokers: Sequence[BrokerCopy]) -> Iterator[None]:
    for one in brokers:
        for many, report in enumerate(one.reports):
            about = report.client_instance_id, report.client_id, report.host, report.group or ""
            for metric in report.values:
                if not metric.labels:
                    page.add("kohort_client_metric", metric.value, *about, metric.name)
            if many % YIELD_EVERY == YIELD_EVERY - 1:
                yield


def _add_counted(page: Page, one: BrokerCopy) -> None:
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
    page.add("kohort_log_topics", process.topics)
    page.add("kohort_log_partitions", process.partitions)
    page.add("kohort_log_segments", process.segments)
    page.add("kohort_log_size_bytes", process.size_bytes)
    for counter, name in LOG.items():
        page.add(name, getattr(process.log, counter))
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


JMX_GROUPS: Final = "kafka_server_group_coordinator_metrics_"
JMX_MANAGER: Final = "kafka_coordinator_group_groupmetadatamanager_"
CONSUMER_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
CLASSIC_STATES: Final = ("Stable", "Empty", "Dead", "PreparingRebalance", "CompletingRebalance")


def add_jmx(page: Page, brokers: Sequence[BrokerCopy]) -> None:
    for one in brokers:
        node = one.node
        count: Counter[str] = Counter()
        for (protocol, _), groups in one.groups.items():
            count[protocol] += groups
        for protocol in ("classic", "consumer"):
            page.add(f"{JMX_GROUPS}group_count", count[protocol], node, protocol)
        for state in CONSUMER_STATES:
            page.add(f"{JMX_GROUPS}consumer_group_count", one.groups["consumer", state], node, state.lower())
        page.add(f"{JMX_GROUPS}classic_group_count", count["classic"], node)
        page.add(f"{JMX_GROUPS}offset_count", one.offsets, node)
        for event, name in {"committed": "commit", "expired": "expiration", "deleted": "deletion"}.items():
            page.add(f"{JMX_GROUPS}offset_{name}_count", one.numbers[f"kohort_broker_offsets_{event}_total"], node)
        page.add(f"{JMX_GROUPS}group_completed_rebalance_count", one.journal.get("assignment_written", 0), node)
        page.add(f"{JMX_GROUPS}consumer_group_rebalance_count", one.journal.get("epoch_raised", 0), node)
        page.add(f"{JMX_GROUPS}partition_load_time_max", one.load_ms_longest, node)
        loads = one.numbers["kohort_broker_group_loads_total"]
        total_ms = one.numbers["kohort_broker_group_load_seconds_total"] * 1000
        page.add(f"{JMX_GROUPS}partition_load_time_avg", total_ms / loads if loads else 0, node)
        page.add(f"{JMX_MANAGER}numgroups", count["classic"], node)
        for state in CLASSIC_STATES:
            page.add(f"{JMX_MANAGER}numgroups{state.lower()}", one.groups["classic", state], node)
        page.add(f"{JMX_MANAGER}numoffsets", one.offsets, node)
