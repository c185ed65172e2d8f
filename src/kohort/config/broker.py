"""Options of a broker, with the names, defaults and bounds of Apache Kafka 4.4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kohort.config.client_metrics import LONGEST_MS, SHORTEST_MS
from kohort.config.kafka_releases import NEWEST, RELEASES
from kohort.config.listener_overrides import PREFIX, Overrides, gather
from kohort.config.listener_security import ListenerConfig, SecurityProtocol
from kohort.config.options import INT_MAX, ValueRule, attribute_of, gathered, option
from kohort.errors import ConfigError
from kohort.secret import Secret

GROUP: Final = "group.consumer."
BOUNDED: Final = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")

_PACKAGE: Final = "org.apache.kafka.coordinator.group.assignor."
ASSIGNOR_NAMES: Final = {
    "uniform": "uniform",
    "range": "range",
    f"{_PACKAGE}UniformAssignor": "uniform",
    f"{_PACKAGE}RangeAssignor": "range",
}
"""Assignors by their names in ``group.consumer.assignors``, case-sensitive as in Kafka."""


def assignor_names(given: Sequence[str]) -> list[str]:
    """Return the names of assignors, given by name or by Kafka's class, without duplicates."""
    return [ASSIGNOR_NAMES[text] for text in dict.fromkeys(given)]


def _are_assignors(given: Sequence[str]) -> bool:
    if not given or not set(given) <= ASSIGNOR_NAMES.keys():
        return False
    names = assignor_names(given)
    return len(names) == len(set(names))


ASSIGNORS: Final = ValueRule(
    _are_assignors, f"uniform, range, or both, each by its name or as {_PACKAGE}UniformAssignor or RangeAssignor"
)


def check_group_bounds(value_of: Callable[[str], Any]) -> None:
    """Raise ConfigError unless group options are within their bounds and heartbeats precede session timeouts.

    ``value_of`` returns the value of an option by Kafka's name.
    """
    for name in BOUNDED:
        low, high, value = f"{GROUP}min.{name}", f"{GROUP}max.{name}", f"{GROUP}{name}"
        _check(value_of, high, low, "at least", value_of(high) >= value_of(low))
        _check(value_of, value, low, "at least", value_of(value) >= value_of(low))
        _check(value_of, value, high, "at most", value_of(value) <= value_of(high))
    heartbeat, session = f"{GROUP}heartbeat.interval.ms", f"{GROUP}session.timeout.ms"
    _check(value_of, heartbeat, session, "less than", value_of(heartbeat) < value_of(session))


def _check(value_of: Callable[[str], Any], name: str, other: str, words: str, holds: bool) -> None:
    if not holds:
        raise ConfigError(f"{name}={value_of(name)}: expected {words} {other}, which is {value_of(other)}")


LONG_MAX = 0x7FFFFFFFFFFFFFFF
COMPRESSION_TYPES = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
GZIP_LEVELS: Final = ValueRule(lambda level: level == -1 or 1 <= level <= 9, "an integer from 1 to 9, or -1")
AUTHORIZERS: Final = ValueRule(
    lambda name: name == "" or name.rpartition(".")[2] == "StandardAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer, or empty",
)
PROTOCOLS: Final = ValueRule(
    lambda names: "classic" in names and set(names) <= {"classic", "consumer", "share", "streams"},
    "a comma-separated list of classic, consumer, share, streams, with classic among them",
)

CLIENT_METRICS: Final = (
    *(f"org.apache.kafka.consumer.{name}." for name in (
        "coordinator", "poll", "last.poll", "time.between.poll", "commit", "fetch.manager.fetch.latency",
        "node.request.latency",
    )),
    *(f"org.apache.kafka.producer.{name}." for name in (
        "record.queue.time", "request.latency", "node.request.latency", "produce.throttle",
    )),
)  # fmt: skip
"""Default client metrics: groups and latencies, without topic or partition."""
METRICS_OF: Final = ("kafka_exporter", "jmx")

# Reasons why options of brokers and topics have no effect.
ONE_STORAGE: Final = "all replicas share one storage"
NO_TIERS: Final = "tiered storage is not supported"
USUAL_LEVEL: Final = "batches are compressed at the codec's default level"
FILES_GROW: Final = "files grow with each write"
GO_AT_ONCE: Final = "files are deleted at once"
ON_TIME: Final = "segments roll on time"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(ListenerConfig):
    """Options of ``kohort serve`` and of an embedded broker."""

    node_id: int = option(1, "Node id of this broker in metadata.", low=0)
    cluster_id: str | None = option(None, "Cluster id; generated at the first start by default.")
    listen_host: str = option("127.0.0.1", "Listen address.", name="host.name")
    listen_port: int = option(9092, "Listen port; 0: any free port.", name="port", low=0, high=65535)
    listeners: list[str] = option([], "Comma-separated listeners, NAME://HOST:PORT; default: host.name and port.")
    listener_security_protocol_map: list[str] = option(
        ["PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"],
        "Comma-separated security protocols of listeners, NAME:PROTOCOL.",
    )
    advertised_listeners: list[str] = option(
        [], "Comma-separated addresses for clients, NAME://HOST:PORT; default: the listeners."
    )
    listener_overrides: Overrides = gathered(PREFIX, gather)
    inter_broker_listener_name: str | None = option(None, "Listener exempt from max.connections, if there are others.")
    security_inter_broker_protocol: str = option(
        "PLAINTEXT",
        "Security protocol between brokers.",
        choices=tuple(protocol.value for protocol in SecurityProtocol),
        no_effect="the nodes of a process do not talk over sockets",
    )
    add_scram: Secret | None = option(
        None,
        "SCRAM users to add at the start if missing, one per line: SCRAM-SHA-256=[name=USER,password=PASSWORD].",
        name="kohort.add.scram",
        of=Secret,
    )
    as_version: str = option(
        NEWEST,
        "Release of Apache Kafka whose APIs, versions and features the broker serves.",
        name="kohort.as.version",
        choices=RELEASES,
    )
    allow_anyone: bool = option(
        False, "Permission to listen to other computers without TLS and logins.", name="kohort.allow.anyone"
    )
    metrics_listen: str | None = option(None, "HOST:PORT of /metrics; default: none.", name="kohort.metrics.listen")
    metrics_allow_anyone: bool = option(
        False,
        "Permission to serve /metrics to other computers, under any host name.",
        name="kohort.metrics.allow.anyone",
    )
    metrics_compat: list[str] = option(
        ["kafka_exporter", "jmx"],
        "Exporters whose metric names /metrics also has, comma-separated.",
        name="kohort.metrics.compat",
        choices=METRICS_OF,
    )
    metrics_max_partitions: int = option(
        1_000, "Limit of partitions per group with series of their own.", name="kohort.metrics.max.partitions", low=0
    )
    metrics_max_series: int = option(
        200_000, "Limit of series per page; the rest is omitted.", name="kohort.metrics.max.series", low=1_000
    )
    metrics_clients: bool = option(
        False, "True to add metrics pushed by clients to /metrics, as series per client.", name="kohort.metrics.clients"
    )
    client_metrics_default: list[str] = option(
        list(CLIENT_METRICS),
        "Prefixes of metrics requested from clients without a subscription; Kafka requests none.",
        name="kohort.client.metrics.default",
    )
    client_metrics_default_interval_ms: int = option(
        60_000,
        "Push interval of clients without a subscription.",
        name="kohort.client.metrics.default.interval.ms",
        low=SHORTEST_MS,
        high=LONGEST_MS,
        bits=32,
    )
    client_metrics_max_instances: int = option(
        16_384,
        "Limit of client instances with pushed metrics, per node.",
        name="kohort.client.metrics.max.instances",
        low=1,
    )
    client_metrics_max_values: int = option(
        200_000, "Limit of pushed metric values in memory.", name="kohort.client.metrics.max.values", low=0
    )
    telemetry_max_bytes: int = option(1_048_576, "Size limit of a metrics push, before and after decompression.", low=1)
    authorizer_class_name: str = option("", "StandardAuthorizer to check ACLs; empty: no checks.", rule=AUTHORIZERS)
    super_users: str = option("", "Semicolon-separated users with all permissions: User:admin;User:CN=ops,O=Example.")
    allow_everyone_if_no_acl_found: bool = option(False, "True to allow operations on resources without ACLs.")
    connection_failed_authentication_delay_ms: int = option(100, "Delay of the response to a failed login.", low=0)
    max_connection_creation_rate: int = option(INT_MAX, "Limit of new connections per second, of all listeners.", low=0)
    quota_window_num: int = option(11, "Number of samples of a quota's rate.", low=1)
    quota_window_size_seconds: int = option(1, "Length of a sample of a quota's rate.", low=1)
    controller_quota_window_num: int = option(11, "Number of samples of the rate of topic changes.", low=1)
    controller_quota_window_size_seconds: int = option(1, "Length of a sample of the rate of topic changes.", low=1)
    rack: str | None = option(None, "Rack of this broker in metadata.", name="broker.rack")

    socket_request_max_bytes: int = option(
        104857600, "Size limit of a request; a larger one closes the connection.", low=1
    )
    connections_max_idle_ms: int = option(600000, "Idle time before a connection is closed; -1: never.", low=-1)
    queued_max_request_bytes: int = option(
        67108864, "Memory limit of large requests being received, and of unread responses; -1: no limit.", low=-1
    )
    max_connections: int = option(INT_MAX, "Limit of open connections.", low=0)
    max_connections_per_ip: int = option(INT_MAX, "Limit of open connections per IP address.", low=0)
    max_connections_per_ip_overrides: list[str] = option([], "Comma-separated limits of addresses, ADDRESS:COUNT.")
    message_max_bytes: int = option(1048588, "Size limit of a record batch.", low=0)
    fetch_max_bytes: int = option(57671680, "Size limit of a fetch response.", low=1024)
    max_incremental_fetch_session_cache_slots: int = option(1000, "Limit of fetch sessions.", low=0)

    max_request_partition_size_limit: int = option(
        2000, "Limit of partitions in a DescribeTopicPartitions response.", low=1
    )

    auto_create_topics_enable: bool = option(True, "True to create an unknown topic when its metadata is requested.")
    delete_topic_enable: bool = option(True, "True to allow deletion of topics.")
    num_partitions: int = option(1, "Default partition count of a new topic.", low=1)
    default_replication_factor: int = option(1, "Replication factor of new topics; at most the number of nodes.", low=1)

    log_segment_bytes: int = option(1073741824, "Size at which a segment rolls.", low=1024)
    log_roll_ms: int = option(604800000, "Age at which a segment rolls.", low=1)
    log_roll_jitter_ms: int = option(0, "Random reduction of the age at which segments roll.", low=0, no_effect=ON_TIME)
    log_preallocate: bool = option(False, "True to preallocate files.", no_effect=FILES_GROW)
    log_segment_delete_delay_ms: int = option(60000, "Delay before a file is deleted.", low=0, no_effect=GO_AT_ONCE)
    log_index_interval_bytes: int = option(4096, "Bytes between entries of the offset index.", low=0)
    log_index_size_max_bytes: int = option(10485760, "Size limit of an index file.", low=4)
    log_retention_ms: int = option(604800000, "Age at which records may be deleted; -1: no limit.", low=-1)
    log_retention_bytes: int = option(-1, "Partition size above which old segments are deleted; -1: no limit.", bits=64)
    log_remote_copy_lag_ms: int = option(
        0, "Age at which a segment is copied to tiered storage; -1: local.retention.ms.", low=-1, no_effect=NO_TIERS
    )
    log_remote_copy_lag_bytes: int = option(
        -1,
        "Bytes after a segment at which it is copied to tiered storage; -1: local.retention.bytes.",
        low=-1,
        bits=64,
        no_effect=NO_TIERS,
    )
    max_decompressed_message_bytes: int = option(
        2147483639,
        "Size limit of a decompressed record.",
        low=1,
        high=2147483639,
        no_effect="each decompressed batch has a fixed limit of 16 MiB",
    )
    log_local_retention_ms: int = option(
        -2, "Age at which local segments are deleted; -2: retention.ms.", low=-2, no_effect=NO_TIERS
    )
    log_local_retention_bytes: int = option(
        -2, "Size above which local segments are deleted; -2: retention.bytes.", low=-2, bits=64, no_effect=NO_TIERS
    )
    log_retention_check_interval_ms: int = option(300000, "Interval of retention checks.", low=1)
    log_cleanup_policy: list[str] = option(["delete"], "Treatment of old segments.", choices=("delete", "compact"))
    log_cleaner_enable: bool = option(True, "True to compact topics with cleanup.policy=compact.")
    log_cleaner_backoff_ms: int = option(15000, "Interval of the search for logs to compact.", low=1)
    log_cleaner_dedupe_buffer_size: int = option(
        134217728, "Memory for the keys of one compaction; more keys need several compactions.", low=1048576, bits=64
    )
    log_cleaner_min_cleanable_ratio: float = option(
        0.5, "Uncompacted share of a log at which compaction starts.", low=0, high=1
    )
    log_cleaner_delete_retention_ms: int = option(86400000, "Time that compaction keeps a tombstone.", low=0)
    log_cleaner_min_compaction_lag_ms: int = option(0, "Shortest time that a record stays uncompacted.", low=0)
    log_cleaner_max_compaction_lag_ms: int = option(LONG_MAX, "Longest time that a record stays uncompacted.", low=1)
    log_flush_interval_messages: int = option(LONG_MAX, "Number of records after which a log is flushed.", low=1)
    log_flush_interval_ms: int = option(LONG_MAX, "Time after which a log is flushed.", low=0)
    log_message_timestamp_type: str = option(
        "CreateTime",
        "Timestamp of records: the producer's, or the time of the append.",
        choices=("CreateTime", "LogAppendTime"),
    )
    log_message_timestamp_before_max_ms: int = option(LONG_MAX, "Largest age of a record's timestamp.", low=0)
    log_message_timestamp_after_max_ms: int = option(
        3600000, "Largest distance of a record's timestamp into the future.", low=0
    )
    compression_type: str = option(
        "producer", "Codec of a topic; producer: the batch's own.", choices=COMPRESSION_TYPES
    )
    compression_gzip_level: int = option(-1, "Level of gzip; -1: default.", rule=GZIP_LEVELS, no_effect=USUAL_LEVEL)
    compression_lz4_level: int = option(9, "Level of lz4.", low=1, high=17, no_effect=USUAL_LEVEL)
    compression_zstd_level: int = option(3, "Level of zstd.", low=-131072, high=22, no_effect=USUAL_LEVEL)
    min_insync_replicas: int = option(1, "Replicas required for a write.", low=1, no_effect=ONE_STORAGE)
    unclean_leader_election_enable: bool = option(False, "True to let any replica lead.", no_effect=ONE_STORAGE)
    producer_id_expiration_ms: int = option(86400000, "Time after which an idle producer expires.", low=1, bits=32)
    producer_id_expiration_check_interval_ms: int = option(600000, "Check interval for idle producers.", low=1, bits=32)
    kohort_producer_max_ids: int = option(
        100000, "Limit of idempotent producers over all partitions; more are rejected; -1: no limit.", low=-1
    )

    group_min_session_timeout_ms: int = option(6000, "Shortest session timeout of a member.", low=1, bits=32)
    group_max_session_timeout_ms: int = option(1800000, "Longest session timeout of a member.", low=1, bits=32)
    group_initial_rebalance_delay_ms: int = option(3000, "Delay of an empty group's first rebalance.", low=0, bits=32)
    group_max_size: int = option(INT_MAX, "Limit of members of a group.", low=1)
    group_coordinator_max_bytes: int = option(
        134217728,
        "Approximate memory limit of groups; new groups and members beyond it are rejected; -1: no limit.",
        low=-1,
    )
    group_coordinator_rebalance_protocols: list[str] = option(
        ["classic", "consumer", "streams"],
        "Served group protocols: classic, and consumer (KIP-848); streams is accepted without effect.",
        choices=("classic", "consumer", "share", "streams"),
        rule=PROTOCOLS,
    )
    group_consumer_session_timeout_ms: int = option(
        45000, "Time without heartbeats after which a member is removed (KIP-848).", low=1, bits=32
    )
    group_consumer_min_session_timeout_ms: int = option(45000, "Shortest session timeout of a group.", low=1, bits=32)
    group_consumer_max_session_timeout_ms: int = option(60000, "Longest session timeout of a group.", low=1, bits=32)
    group_consumer_heartbeat_interval_ms: int = option(5000, "Heartbeat interval of members.", low=1, bits=32)
    group_consumer_min_heartbeat_interval_ms: int = option(
        5000, "Shortest heartbeat interval of a group.", low=1, bits=32
    )
    group_consumer_max_heartbeat_interval_ms: int = option(
        15000, "Longest heartbeat interval of a group.", low=1, bits=32
    )
    group_consumer_assignment_interval_ms: int = option(
        1000, "Shortest time between two target assignments of a group; 0: no limit.", low=0, bits=32
    )
    group_consumer_min_assignment_interval_ms: int = option(
        0, "Shortest assignment interval of a group.", low=0, bits=32
    )
    group_consumer_max_assignment_interval_ms: int = option(
        15000, "Longest assignment interval of a group.", low=0, bits=32
    )
    group_consumer_max_size: int = option(INT_MAX, "Limit of members of a consumer group (KIP-848).", low=1)
    group_consumer_assignors: list[str] = option(
        ["uniform", "range"], "Assignors that members may request; the first is the default.", rule=ASSIGNORS
    )
    group_consumer_migration_policy: str = option(
        "bidirectional",
        "Allowed protocol changes of groups with members: classic to KIP-848, back, or both.",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
    )
    group_consumer_regex_refresh_interval_ms: int = option(
        600000, "Interval at which subscription patterns are resolved again.", low=10000, bits=32
    )
    offset_metadata_max_bytes: int = option(4096, "Length limit of commit metadata, in UTF-16 units.", low=0)
    offsets_commit_timeout_ms: int = option(5000, "Timeout of a coordinator's write.", low=1, bits=32)
    offsets_topic_num_partitions: int = option(50, "Partition count of __consumer_offsets.", low=1)
    offsets_topic_replication_factor: int = option(
        3, "Replication factor of __consumer_offsets; at most the number of nodes.", low=1, bits=16
    )
    offsets_topic_segment_bytes: int = option(104857600, "Segment size of __consumer_offsets.", low=1)
    offsets_retention_minutes: int = option(10080, "Time that the offsets of an empty group are kept.", low=1)
    offsets_retention_check_interval_ms: int = option(600000, "Interval of checks for expired offsets.", low=1)

    transaction_max_timeout_ms: int = option(900000, "Longest transaction timeout of a producer.", low=1, bits=32)
    transactional_id_expiration_ms: int = option(
        604800000, "Time after which an unused transactional id expires.", low=1, bits=32
    )
    transaction_remove_expired_interval_ms: int = option(
        3600000,
        "Interval of checks for expired transactional ids.",
        name="transaction.remove.expired.transaction.cleanup.interval.ms",
        low=1,
        bits=32,
    )
    transaction_coordinator_max_bytes: int = option(
        67108864, "Approximate memory limit of transactional ids; more are rejected; -1: no limit.", low=-1
    )
    transaction_state_log_num_partitions: int = option(50, "Partition count of __transaction_state.", low=1)
    transaction_state_log_replication_factor: int = option(
        3, "Replication factor of __transaction_state; at most the number of nodes.", low=1, bits=16
    )
    transaction_state_log_segment_bytes: int = option(104857600, "Segment size of __transaction_state.", low=1)

    def __post_init__(self) -> None:
        check_group_bounds(lambda name: getattr(self, attribute_of(type(self), name)))

    @property
    def consumer_assignors(self) -> list[str]:
        """Assignors that members may request; the first is the default."""
        return assignor_names(self.group_consumer_assignors)
