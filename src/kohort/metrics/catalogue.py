"""Every metric there is: its name, kind, labels, and what it says. Nothing else can be on a page.

The sets are those of other exporters, by the names that dashboards know, and our own: ``groups`` of any cluster,
``broker`` of our own broker. ``docs/guides/metrics.md`` has the same table, and a test compares them.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["gauge", "counter", "histogram", "unknown"]
Set = Literal["kafka_exporter", "jmx", "groups", "broker", "watch"]

COMPATIBLE: Final[tuple[Set, ...]] = ("kafka_exporter", "jmx")
"""The sets that can be chosen."""


class Known(NamedTuple):
    """A metric. A counter's name ends in ``_total``."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str
    of: Set


def _gauges(of: Set, labels: str, **named: str) -> list[Known]:
    return [Known(name, "gauge", tuple(labels.split()), text, of) for name, text in named.items()]


def _counters(of: Set, labels: str, **named: str) -> list[Known]:
    return [Known(name, "counter", tuple(labels.split()), text, of) for name, text in named.items()]


def _histograms(of: Set, labels: str, **named: str) -> list[Known]:
    return [Known(name, "histogram", tuple(labels.split()), text, of) for name, text in named.items()]


_OWN: Final = [
    *_gauges(
        "groups",
        "group protocol protocol_type assignor coordinator_id",
        kohort_group_info="1, with what the group is in the labels.",
    ),
    *_gauges("groups", "group state", kohort_group_state="1 for the state that the group is in, 0 for the others."),
    *_gauges(
        "groups",
        "group",
        kohort_group_generation="The generation, or the epoch (KIP-848).",
        kohort_group_members="Members.",
        kohort_group_idle_members="Members that have no partition.",
        kohort_group_stuck_members="Members that commit nothing, while records wait in all that they have.",
        kohort_group_health="1 OK, 2 WARN, 4 STOP, 5 STALL, 6 REWIND as Burrow has it; 7 REBALANCING, 8 STORM.",
        kohort_group_uncommitted_partitions="Partitions that members have and for which nothing is committed.",
        kohort_group_unowned_partitions="Partitions of subscribed topics that no member has, while there are members.",
        kohort_group_total_lag_records="Records that are yet to be read, of all partitions of which that is known.",
        kohort_group_max_lag_records="The same of the partition that is furthest behind.",
        kohort_group_max_lag_seconds="How old the oldest record is that is yet to be read; 0 where all is read.",
        kohort_group_lag_drain_eta_seconds="When all will be read, as it goes on; no series while lag grows.",
        kohort_group_lost_records="Records that retention took before they were read, as far as is known.",
    ),
    *_gauges(
        "groups",
        "group topic partition",
        kohort_group_lag_records="Records that are yet to be read; no series where that is not known.",
        kohort_group_lag_seconds="How old the first of them is; 0 where all is read.",
        kohort_group_lead_records="Records between the start of the log and the committed offset.",
    ),
    *_counters(
        "groups",
        "group cause round",
        kohort_group_rebalances_total="Rebalances that are over, by cause; `round` is `first` or `followup`.",
    ),
    *_histograms(
        "groups",
        "group phase",
        kohort_group_rebalance_duration_seconds="How long rebalances took: each phase, and `total`.",
    ),
    *_counters(
        "groups",
        "group",
        kohort_group_partitions_moved_total="Partitions that changed hands.",
        kohort_group_partition_unowned_seconds_total="How long partitions had no owner, added up.",
    ),
    *_counters("groups", "group cause", kohort_group_member_evictions_total="Members that were put out, by why."),
    *_counters(
        "groups",
        "group api error",
        kohort_group_fenced_members_total="Members that were out of date and refused; each once in a generation.",
    ),
]
_KAFKA_EXPORTER: Final = [
    *_gauges("kafka_exporter", "", kafka_brokers="Brokers of the cluster."),
    *_gauges("kafka_exporter", "id address", kafka_broker_info="1, with a broker's address in the labels."),
    *_gauges("kafka_exporter", "topic", kafka_topic_partitions="Partitions of the topic."),
    *_gauges("kafka_exporter", "consumergroup", kafka_consumergroup_members="Members."),
    *_gauges(
        "kafka_exporter",
        "consumergroup topic",
        kafka_consumergroup_current_offset_sum="Committed offsets added up, with -1 for each that is not.",
        kafka_consumergroup_lag_sum="Lag added up, without the partitions that have no commit.",
    ),
    *_gauges(
        "kafka_exporter",
        "consumergroup topic partition",
        kafka_consumergroup_current_offset="The committed offset; -1 where nothing is committed, but in others is.",
        kafka_consumergroup_lag="Records between it and the end of the log; -1 where nothing is committed.",
    ),
    *_gauges(
        "kafka_exporter",
        "topic partition",
        kafka_topic_partition_current_offset="The end of the log.",
        kafka_topic_partition_oldest_offset="The start of the log.",
        kafka_topic_partition_leader="Which broker leads; no series while none does.",
        kafka_topic_partition_replicas="Replicas.",
        kafka_topic_partition_in_sync_replica="Replicas that are in sync.",
        kafka_topic_partition_leader_is_preferred="1 where the first replica leads.",
        kafka_topic_partition_under_replicated_partition="1 where a replica is not in sync.",
    ),
]
_JMX_GROUPS: Final = "kafka_server_group_coordinator_metrics_"
_JMX_MANAGER: Final = "kafka_coordinator_group_groupmetadatamanager_"


def _jmx(labels: str, prefix: str, **named: str) -> list[Known]:
    return [Known(prefix + name, "unknown", tuple(labels.split()), text, "jmx") for name, text in named.items()]


_JMX: Final = [
    *_jmx("node protocol", _JMX_GROUPS, group_count="Groups, by protocol."),
    *_jmx("node state", _JMX_GROUPS, consumer_group_count="Groups of KIP-848, by state."),
    *_jmx(
        "node",
        _JMX_GROUPS,
        classic_group_count="Groups of the classic protocol.",
        offset_count="Offsets that are committed.",
        offset_commit_count="Offsets that were committed so far.",
        offset_expiration_count="Offsets that expired so far.",
        offset_deletion_count="Offsets that were deleted so far, otherwise.",
        group_completed_rebalance_count="Generations of classic groups whose assignment was written, so far.",
        consumer_group_rebalance_count="Epochs of groups of KIP-848 so far.",
        partition_load_time_max="The longest load of a partition of groups, in milliseconds.",
        partition_load_time_avg="The average load, in milliseconds.",
    ),
    *_jmx(
        "node",
        _JMX_MANAGER,
        numgroups="Groups of the classic protocol.",
        numgroupsstable="Those that are Stable.",
        numgroupsempty="Those that are Empty.",
        numgroupsdead="Those that are Dead.",
        numgroupspreparingrebalance="Those that are PreparingRebalance.",
        numgroupscompletingrebalance="Those that are CompletingRebalance.",
        numoffsets="Offsets that are committed.",
    ),
]
_BROKER: Final = [
    *_gauges("broker", "node version cluster_id", kohort_broker_info="1, with what the broker is in the labels."),
    *_histograms(
        "broker",
        "node api",
        kohort_broker_request_duration_seconds="From taking a request up to its answer, with all waits; not of logins.",
    ),
    *_counters(
        "broker",
        "node api error",
        kohort_broker_request_errors_total="Errors in answers; of long lists, in the first 1,000 parts.",
    ),
    *_counters(
        "broker",
        "node",
        kohort_broker_received_bytes_total="Bytes received.",
        kohort_broker_sent_bytes_total="Bytes sent.",
        kohort_broker_connections_opened_total="Connections that were let in.",
        kohort_broker_connections_refused_total="Connections that were not.",
        kohort_broker_logins_total="Logins (SASL) that succeeded.",
        kohort_broker_failed_logins_total="Logins (SASL) that failed.",
        kohort_broker_failed_handshakes_total="TLS handshakes that failed.",
        kohort_broker_fetches_waited_total="Fetches that had to wait for bytes.",
        kohort_broker_fetches_expired_total="Those of them whose time was up first.",
        kohort_broker_long_requests_total="Requests that were served in steps.",
        kohort_broker_offsets_committed_total="Offsets that were committed.",
        kohort_broker_offsets_expired_total="Offsets that expired.",
        kohort_broker_offsets_deleted_total="Offsets that were deleted otherwise.",
        kohort_broker_group_loads_total="Partitions of `__consumer_offsets` that were read.",
        kohort_broker_group_load_seconds_total="How long that took while others were served; not at the start.",
        kohort_broker_journal_entries_forgotten_total="Journal entries that came too fast to be on this page.",
    ),
    *_counters(
        "broker",
        "node reason",
        kohort_broker_connections_ended_total="Connections that the broker ended, by the kind of reason.",
    ),
    *_counters(
        "broker", "node quota", kohort_broker_throttled_seconds_total="How long clients were held up, by quota."
    ),
    *_counters("broker", "node kind", kohort_broker_journal_entries_total="Entries of the journal, by kind."),
    *_counters(
        "broker",
        "node result",
        kohort_broker_client_pushes_total="Pushes of metrics by clients (KIP-714), by what became of them.",
    ),
    *_counters(
        "broker",
        "node api error",
        kohort_broker_fenced_requests_total="Requests refused, of members that were out of date.",
    ),
    *_counters(
        "broker", "group api error", kohort_group_fenced_requests_total="The same of each group: every request counts."
    ),
    *_counters(
        "broker",
        "node budget",
        kohort_broker_budget_refusals_total="What was refused, or ended, because a budget was used up.",
    ),
    *_gauges(
        "broker",
        "node",
        kohort_broker_connections="Connections that stand.",
        kohort_broker_pushing_clients="Clients that push metrics, or ask which.",
    ),
    *_gauges(
        "broker",
        "client_instance_id client_id host group metric",
        kohort_client_metric="What a client pushed last, by Kafka's name of it (`kohort.metrics.clients`).",
    ),
    *_gauges("broker", "node kind", kohort_broker_waiting_requests="Requests that wait, by what for."),
    *_gauges(
        "broker",
        "node budget",
        kohort_broker_budget_used="How much of a budget is used (docs/limits.md); of groups, at most.",
        kohort_broker_budget_limit="How much may be used; no series where there is no limit.",
    ),
    *_gauges("broker", "node protocol state", kohort_broker_groups="Groups, by protocol and state."),
    *_gauges("broker", "node", kohort_broker_offsets="Offsets that are committed."),
    *_histograms(
        "broker", "", kohort_broker_loop_lag_seconds="How late the loop that serves everyone is; seen twice a second."
    ),
    *_gauges(
        "broker",
        "",
        kohort_log_topics="Topics.",
        kohort_log_partitions="Partitions.",
        kohort_log_segments="Segments.",
        kohort_log_size_bytes="Bytes of all segments.",
    ),
    *_counters(
        "broker",
        "",
        kohort_log_batches_appended_total="Batches that were appended.",
        kohort_log_records_appended_total="Records that were appended.",
        kohort_log_bytes_appended_total="Bytes that were appended.",
        kohort_log_segments_rolled_total="Segments that were begun.",
        kohort_log_segments_deleted_total="Segments that retention took, or DeleteRecords.",
        kohort_log_bytes_deleted_total="Their bytes.",
        kohort_log_compactions_total="Compactions of a log.",
        kohort_log_bytes_compacted_total="Bytes by which they made logs smaller.",
    ),
    *_histograms("broker", "", kohort_log_flush_duration_seconds="How long the disk took to keep what was written."),
]
_WATCH: Final = [
    *_gauges(
        "watch",
        "watched",
        kohort_watch_up="1 while the cluster is watched, and all that it had is read; else 0.",
        kohort_watch_until_timestamp_seconds="Until when it was watched.",
        kohort_watch_groups="Groups of it that are remembered.",
        kohort_watch_partitions="Partitions of it whose last commits are remembered.",
    ),
    *_counters(
        "watch",
        "watched",
        kohort_watch_records_total="Records that were read.",
        kohort_watch_left_out_records_total="Records of groups and partitions beyond what may be remembered.",
        kohort_watch_unread_records_total="Records of a kind yet unknown.",
        kohort_watch_failures_total="How often watching ended, and began again.",
    ),
    *_counters(
        "watch",
        "watched group cause",
        kohort_watch_rebalances_total="Rebalances that were seen from the outside, by inferred cause.",
    ),
]
_PAGE: Final = [
    *_gauges(
        "groups",
        "",
        kohort_metrics_snapshot_timestamp_seconds="When all this was looked at.",
        kohort_metrics_snapshot_duration_seconds="How long it took to look.",
        kohort_metrics_dropped_series="Series that are not here, as a page has only so many.",
    )
]

CATALOGUE: Final[dict[str, Known]] = {
    known.name: known for known in (*_PAGE, *_BROKER, *_WATCH, *_JMX, *_OWN, *_KAFKA_EXPORTER)
}
"""By name, in the order of a page."""
