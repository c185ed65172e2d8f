"""What a broker of this process counts and holds, copied at one moment, piece by piece."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field

from kohort.broker.broker import Broker
from kohort.broker.counters import Durations
from kohort.log.listener import LogCounters
from kohort.metrics.watched import WatchedCluster
from kohort.telemetry.report import ClientReport
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
    """One broker."""

    node: int
    took: dict[str, Durations]
    """By API; those that were asked for at all."""
    errors: dict[tuple[str, int], int]
    """By API and code."""
    numbers: dict[str, float]
    """By the name of the metric."""
    ended: dict[str, int]
    waiting: dict[str, int]
    budgets: dict[str, tuple[float, float]]
    """Used and allowed, by name."""
    refusals: dict[str, int]
    throttled_ms: dict[str, int]
    journal: dict[str, int]
    fenced: dict[tuple[str, str], int]
    """By API and error."""
    load_ms_longest: int
    pushes: dict[str, int]
    """Of metrics of clients (KIP-714), by what became of them."""
    fenced_in: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict)
    """The same of each group that there is."""
    groups: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By protocol and state."""
    offsets: int = 0
    reports: list[ClientReport] = field(default_factory=list)
    """What clients pushed last, where it is to be on the page."""


@dataclass(slots=True)
class ProcessCopy:
    """What is one for all brokers of a process."""

    log: LogCounters
    topics: int = 0
    partitions: int = 0
    segments: int = 0
    size_bytes: int = 0
    flushes: Durations | None = None
    loop_lag: Durations | None = None
    watched: WatchedCluster | None = None
    """Another cluster that is watched beside them."""


def copy_of(broker: Broker, failed_handshakes: int) -> BrokerCopy:
    """Return what a broker counts, as it is now. Takes some tens of microseconds."""
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
        waiting={
            "fetch": len(purgatory),
            "flush": len(state.flushes),
            "long": len(broker.long_work),
        },
        budgets=_budgets(broker),
        refusals={
            GROUPS: state.coordinator.budget.refused,
            UNREAD: state.unread.ended,
            PRODUCERS: state.topics.producer_room.refused,
            TRANSACTIONS: state.cluster.transactions.room.refused,
        },
        throttled_ms={quota.value: ms for quota, ms in state.quotas.throttled_ms.items()},
        journal={_tag(kind): times for kind, times in counts.journal.items()},
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


def _tag(kind: type) -> str:
    """Return the name that the journal's JSON has for a kind of entry."""
    return str(kind.__struct_config__.tag)  # type: ignore[attr-defined]  # msgspec's
