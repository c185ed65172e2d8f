"""All metrics that a page can contain: name, kind, labels, help text.

The sets ``kafka_exporter`` and ``jmx`` have the names that dashboards of other exporters use. The sets ``groups``
and ``broker`` are kohort's own. ``docs/guides/metrics.md`` has the same metrics; a test compares the guide with this
module.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, cast

Kind = Literal["gauge", "counter", "histogram", "unknown"]
MetricSet = Literal["kafka_exporter", "jmx", "groups", "broker"]

OTHER_EXPORTERS: Final[tuple[MetricSet, ...]] = ("kafka_exporter", "jmx")
"""Metric sets that ``kohort.metrics.compat`` and ``--metrics-compat`` can switch off."""


class MetricSpec(NamedTuple):
    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    set: MetricSet


# Each heading gives set, kind and labels of the metrics below it. Lines with deeper indentation continue a help text.
_TABLE: Final = """\
groups gauge:
  kohort_metrics_snapshot_timestamp_seconds  Time of the snapshot that this page shows.
  kohort_metrics_snapshot_duration_seconds  Duration of the snapshot.
  kohort_metrics_dropped_series  Series dropped because the page was full.
broker gauge: node version cluster_id
  kohort_broker_info  Always 1; the labels describe the broker.
broker histogram: node api
  kohort_broker_request_duration_seconds  Time from the receipt of a request to its response, without logins.
broker counter: node api error
  kohort_broker_request_errors_total  Error codes in responses; of a long list, only the first 1,000 entries count.
broker counter: node
  kohort_broker_received_bytes_total  Bytes received.
  kohort_broker_sent_bytes_total  Bytes sent.
  kohort_broker_connections_opened_total  Accepted connections.
  kohort_broker_connections_refused_total  Refused connections.
  kohort_broker_logins_total  Successful logins (SASL).
  kohort_broker_failed_logins_total  Failed logins (SASL).
  kohort_broker_failed_handshakes_total  Failed TLS handshakes.
  kohort_broker_fetches_waited_total  Fetch requests that waited for `fetch.min.bytes`.
  kohort_broker_fetches_expired_total  Waiting fetch requests that reached `fetch.max.wait.ms`.
  kohort_broker_long_requests_total  Requests that were processed in several steps, with other requests in between.
  kohort_broker_offsets_committed_total  Offset commits.
  kohort_broker_offsets_expired_total  Expired offsets.
  kohort_broker_offsets_deleted_total  Offsets deleted before they expired.
  kohort_broker_group_loads_total  Loaded partitions of `__consumer_offsets`.
  kohort_broker_group_load_seconds_total  Time spent loading partitions of `__consumer_offsets`, except at the
    broker's start.
  kohort_broker_journal_entries_forgotten_total  Journal entries dropped, because scrapes were too rare.
broker counter: node reason
  kohort_broker_connections_ended_total  Connections that the broker closed, by reason.
broker counter: node quota
  kohort_broker_throttled_seconds_total  Throttle time of clients, by quota.
broker counter: node kind
  kohort_broker_journal_entries_total  Journal entries, by kind.
broker counter: node result
  kohort_broker_client_pushes_total  Metrics pushes of clients (KIP-714), by result.
broker counter: node api error
  kohort_broker_fenced_requests_total  Rejected requests of outdated members.
broker counter: group api error
  kohort_group_fenced_requests_total  Rejected requests of outdated members of a group; every request counts.
broker counter: node budget
  kohort_broker_budget_refusals_total  Refused requests and closed connections due to an exhausted budget.
broker gauge: node
  kohort_broker_connections  Open connections.
  kohort_broker_pushing_clients  Clients with a metrics subscription (KIP-714).
broker gauge: client_instance_id client_id host group metric
  kohort_client_metric  Last value that a client pushed; `metric` is Kafka's name (`kohort.metrics.clients`).
broker gauge: node kind
  kohort_broker_waiting_requests  Requests that wait, by kind: fetch, flush to disk, long request.
broker gauge: node budget
  kohort_broker_budget_used  Used part of a memory budget (docs/limits.md); for groups, an upper bound.
  kohort_broker_budget_limit  Limit of a budget; no series without a limit.
broker gauge: node protocol state
  kohort_broker_groups  Groups, by protocol and state.
broker gauge: node
  kohort_broker_offsets  Committed offsets that are stored now.
broker histogram:
  kohort_broker_loop_lag_seconds  Delay of the broker's event loop, measured twice a second.
broker gauge:
  kohort_log_topics  Topics.
  kohort_log_partitions  Partitions.
  kohort_log_segments  Segments.
  kohort_log_size_bytes  Size of all segments, in bytes.
broker counter:
  kohort_log_batches_appended_total  Appended batches.
  kohort_log_records_appended_total  Appended records.
  kohort_log_bytes_appended_total  Appended bytes.
  kohort_log_segments_rolled_total  New segments.
  kohort_log_segments_deleted_total  Segments deleted by retention or DeleteRecords.
  kohort_log_bytes_deleted_total  Bytes deleted by retention or DeleteRecords.
  kohort_log_compactions_total  Compactions of a log.
  kohort_log_bytes_compacted_total  Bytes freed by compaction.
broker histogram:
  kohort_log_flush_duration_seconds  Duration of flushes to the disk.
jmx unknown: node protocol
  kafka_server_group_coordinator_metrics_group_count  Groups, by protocol.
jmx unknown: node state
  kafka_server_group_coordinator_metrics_consumer_group_count  Consumer groups (KIP-848), by state.
jmx unknown: node
  kafka_server_group_coordinator_metrics_classic_group_count  Classic groups.
  kafka_server_group_coordinator_metrics_offset_count  Committed offsets that are stored now.
  kafka_server_group_coordinator_metrics_offset_commit_count  Offset commits since the start.
  kafka_server_group_coordinator_metrics_offset_expiration_count  Expired offsets since the start.
  kafka_server_group_coordinator_metrics_offset_deletion_count  Offsets deleted before they expired, since the start.
  kafka_server_group_coordinator_metrics_group_completed_rebalance_count  Generations of classic groups with a
    persisted assignment, since the start.
  kafka_server_group_coordinator_metrics_consumer_group_rebalance_count  New epochs of consumer groups (KIP-848) since
    the start.
  kafka_server_group_coordinator_metrics_partition_load_time_max  Longest load of a `__consumer_offsets` partition, in
    milliseconds.
  kafka_server_group_coordinator_metrics_partition_load_time_avg  Average load of a `__consumer_offsets` partition, in
    milliseconds.
  kafka_coordinator_group_groupmetadatamanager_numgroups  Classic groups.
  kafka_coordinator_group_groupmetadatamanager_numgroupsstable  Classic groups in state Stable.
  kafka_coordinator_group_groupmetadatamanager_numgroupsempty  Classic groups in state Empty.
  kafka_coordinator_group_groupmetadatamanager_numgroupsdead  Classic groups in state Dead.
  kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance  Classic groups in state
    PreparingRebalance.
  kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance  Classic groups in state
    CompletingRebalance.
  kafka_coordinator_group_groupmetadatamanager_numoffsets  Committed offsets that are stored now.
groups gauge: group protocol protocol_type assignor coordinator_id
  kohort_group_info  Always 1; the labels describe the group.
groups gauge: group state
  kohort_group_state  1 for the current state of the group, 0 for the other states.
groups gauge: group
  kohort_group_generation  Generation of the group, or its epoch (KIP-848).
  kohort_group_members  Members.
  kohort_group_idle_members  Members without a partition.
  kohort_group_stuck_members  Members without commits while all their partitions have lag.
  kohort_group_health  Burrow's status: 1 OK, 2 WARN, 4 STOP, 5 STALL, 6 REWIND; kohort's own: 7 REBALANCING, 8 STORM.
  kohort_group_uncommitted_partitions  Assigned partitions without a committed offset.
  kohort_group_unowned_partitions  Partitions of subscribed topics that are assigned to no member; no series without
    members.
  kohort_group_total_lag_records  Lag in records, summed over all partitions with a known lag.
  kohort_group_max_lag_records  Lag in records of the partition with the largest lag.
  kohort_group_max_lag_seconds  Age of the oldest unread record, in seconds; 0 without lag.
  kohort_group_lag_drain_eta_seconds  Estimated time until the lag is 0, in seconds; no series while the lag grows.
  kohort_group_lost_records  Records that retention deleted before the group read them, as far as known.
groups gauge: group topic partition
  kohort_group_lag_records  Lag of the partition in records; no series if unknown.
  kohort_group_lag_seconds  Age of the first unread record, in seconds; 0 without lag.
  kohort_group_lead_records  Records between the log start and the committed offset.
groups counter: group cause round
  kohort_group_rebalances_total  Finished rebalances by cause; `round` is `first` or `followup`.
groups histogram: group phase
  kohort_group_rebalance_duration_seconds  Duration of rebalances, by phase and in `total`.
groups counter: group
  kohort_group_partitions_moved_total  Partitions that rebalances moved to another member.
  kohort_group_partition_unowned_seconds_total  Time that partitions had no owner, summed over partitions.
groups counter: group cause
  kohort_group_member_evictions_total  Members that the coordinator removed (timeouts), by cause.
groups counter: group api error
  kohort_group_fenced_members_total  Members with a rejected outdated request, each counted once per generation.
kafka_exporter gauge:
  kafka_brokers  Brokers of the cluster.
kafka_exporter gauge: id address
  kafka_broker_info  Always 1; the labels have id and address of the broker.
kafka_exporter gauge: topic
  kafka_topic_partitions  Partitions of the topic.
kafka_exporter gauge: consumergroup
  kafka_consumergroup_members  Members of the group.
kafka_exporter gauge: consumergroup topic
  kafka_consumergroup_current_offset_sum  Sum of the committed offsets, with -1 for each partition without a commit.
  kafka_consumergroup_lag_sum  Sum of the lags, without partitions that have no commit.
kafka_exporter gauge: consumergroup topic partition
  kafka_consumergroup_current_offset  Committed offset; -1 for a partition without a commit in a topic with commits.
  kafka_consumergroup_lag  Records between the committed offset and the log end; -1 without a commit.
kafka_exporter gauge: topic partition
  kafka_topic_partition_current_offset  Log end offset.
  kafka_topic_partition_oldest_offset  Log start offset.
  kafka_topic_partition_leader  Node id of the leader; no series without a leader.
  kafka_topic_partition_replicas  Replicas of the partition.
  kafka_topic_partition_in_sync_replica  Replicas in sync.
  kafka_topic_partition_leader_is_preferred  1 if the first replica is the leader.
  kafka_topic_partition_under_replicated_partition  1 if a replica is not in sync.
"""


def _parse(table: str) -> dict[str, MetricSpec]:
    specs: dict[str, MetricSpec] = {}
    heading = ""
    for line in table.replace("\n    ", " ").splitlines():
        if not line.startswith("  "):
            heading = line
            continue
        name, help_text = line.split(maxsplit=1)
        kind_of_set, _, labels = heading.partition(":")
        metric_set, kind = cast("tuple[MetricSet, Kind]", kind_of_set.split())
        specs[name] = MetricSpec(name, kind, tuple(labels.split()), help_text, metric_set)
    return specs


CATALOGUE: Final = _parse(_TABLE)
