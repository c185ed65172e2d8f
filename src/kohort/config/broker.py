"""The broker's options: Kafka's names, defaults and bounds, as in Apache Kafka 4.4."""

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
"""What ``group.consumer.assignors`` may say, and which assignor that is. Kafka's letters: large ones are others."""


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
    """Raise ConfigError, of one sentence, unless each value is within its bounds, and heartbeats come before sessions
    end. ``value_of`` gives the value of an option by Kafka's name."""
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
GZIP_LEVELS: Final = ValueRule(lambda level: level == -1 or 1 <= level <= 9, "a whole number from 1 to 9, or -1")
AUTHORIZERS: Final = ValueRule(
    lambda name: name == "" or name.rpartition(".")[2] == "StandardAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer, which is the one that is here, or nothing",
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
"""Metrics of groups and of delays; none by topic or partition."""
METRICS_OF: Final = ("kafka_exporter", "jmx")

# Reasons of options without effect, of brokers and topics.
ONE_STORAGE: Final = "the replicas are one storage, to which nothing is copied"
NO_TIERS: Final = "there is no tiered storage"
USUAL_LEVEL: Final = "batches are compressed at the codec's usual level"
FILES_GROW: Final = "files grow as they are written"
GO_AT_ONCE: Final = "files are deleted at once"
ON_TIME: Final = "segments roll on time"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(ListenerConfig):
    """Options of ``kohort serve`` and of an embedded broker."""

    node_id: int = option("node.id", 1, "Id of this broker, shown in metadata.", low=0)
    cluster_id: str | None = option("cluster.id", None, "Id of the cluster; made at first start when not given.")
    listen_host: str = option("host.name", "127.0.0.1", "Address to listen on.")
    listen_port: int = option("port", 9092, "Port to listen on; 0 takes a free one.", low=0, high=65535)
    listeners: list[str] = option(
        "listeners", [], "Where to listen: NAME://HOST:PORT, with commas between; default: host.name and port."
    )
    listener_security_protocol_map: list[str] = option(
        "listener.security.protocol.map",
        ["PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"],
        "What each listener speaks: NAME:PROTOCOL, with commas between.",
    )
    advertised_listeners: list[str] = option(
        "advertised.listeners",
        [],
        "What clients are told to connect to, NAME://HOST:PORT for each listener; default: the listening addresses.",
    )
    listener_overrides: Overrides = gathered(PREFIX, gather)
    inter_broker_listener_name: str | None = option(
        "inter.broker.listener.name", None, "The listener that max.connections leaves alone, if there are others."
    )
    security_inter_broker_protocol: str = option(
        "security.inter.broker.protocol",
        "PLAINTEXT",
        "What brokers speak among themselves.",
        choices=tuple(protocol.value for protocol in SecurityProtocol),
        no_effect="the nodes of a process do not talk over sockets",
    )
    add_scram: Secret | None = option(
        "kohort.add.scram", None,
        "Users to add at the start unless they are there, one a line: SCRAM-SHA-256=[name=USER,password=PASSWORD].",
        of=Secret,
    )  # fmt: skip
    as_version: str = option(
        "kohort.as.version",
        NEWEST,
        "The release of Apache Kafka whose APIs, versions and features are shown and served.",
        choices=RELEASES,
    )
    allow_anyone: bool = option(
        "kohort.allow.anyone", False, "Whether a listener without TLS and logins may be reached from other computers."
    )
    metrics_listen: str | None = option(
        "kohort.metrics.listen", None, "Where to serve /metrics for Prometheus: HOST:PORT; nowhere unless given."
    )
    metrics_allow_anyone: bool = option(
        "kohort.metrics.allow.anyone", False, "Whether /metrics may be reached from other computers, and by any name."
    )
    metrics_compat: list[str] = option(
        "kohort.metrics.compat",
        ["kafka_exporter", "jmx"],
        "By whose names groups are shown, too, beside our own; with commas between.",
        choices=METRICS_OF,
    )
    metrics_max_partitions: int = option(
        "kohort.metrics.max.partitions", 1_000, "Partitions of a group that have series of their own.", low=0
    )
    metrics_max_series: int = option(
        "kohort.metrics.max.series", 200_000, "Series of a page; what is more is left out.", low=1_000
    )
    metrics_clients: bool = option(
        "kohort.metrics.clients", False, "Whether what clients push is on /metrics, too: series for each client."
    )
    client_metrics_default: list[str] = option(
        "kohort.client.metrics.default",
        list(CLIENT_METRICS),
        "Metrics, by their prefixes, that are asked of clients that no subscription matches; Kafka asks for none.",
    )
    client_metrics_default_interval_ms: int = option(
        "kohort.client.metrics.default.interval.ms",
        60_000,
        "How often such clients push them.",
        low=SHORTEST_MS,
        high=LONGEST_MS,
        bits=32,
    )
    client_metrics_max_instances: int = option(
        "kohort.client.metrics.max.instances", 16_384, "Clients that are known by their pushes, of each node.", low=1
    )
    client_metrics_max_values: int = option(
        "kohort.client.metrics.max.values", 200_000, "Values of theirs that are kept in memory, all together.", low=0
    )
    telemetry_max_bytes: int = option(
        "telemetry.max.bytes", 1_048_576, "Largest push of a client's metrics, compressed or not.", low=1
    )
    authorizer_class_name: str = option(
        "authorizer.class.name",
        "",
        "StandardAuthorizer: what clients may do is checked. Empty: everybody may all.",
        rule=AUTHORIZERS,
    )
    super_users: str = option(
        "super.users", "", "Who may do everything, with semicolons between: User:admin;User:CN=ops,O=Example."
    )
    allow_everyone_if_no_acl_found: bool = option(
        "allow.everyone.if.no.acl.found", False, "Whether everybody may do what no ACL speaks of."
    )
    connection_failed_authentication_delay_ms: int = option(
        "connection.failed.authentication.delay.ms", 100, "How long a failed login waits for its answer.", low=0
    )
    max_connection_creation_rate: int = option(
        "max.connection.creation.rate", INT_MAX, "New connections per second, of all listeners.", low=0
    )
    quota_window_num: int = option("quota.window.num", 11, "Samples over which a rate is measured.", low=1)
    quota_window_size_seconds: int = option("quota.window.size.seconds", 1, "How long one of them is.", low=1)
    controller_quota_window_num: int = option(
        "controller.quota.window.num", 11, "The same for changes of topics.", low=1
    )
    controller_quota_window_size_seconds: int = option(
        "controller.quota.window.size.seconds", 1, "How long one of those is.", low=1
    )
    rack: str | None = option("broker.rack", None, "Rack of this broker, shown in metadata.")

    socket_request_max_bytes: int = option(
        "socket.request.max.bytes", 104857600, "Largest request that is read; a larger one ends the connection.", low=1
    )
    connections_max_idle_ms: int = option(
        "connections.max.idle.ms", 600000, "A connection without traffic for this long is closed; -1: never.", low=-1
    )
    queued_max_request_bytes: int = option(
        "queued.max.request.bytes",
        67108864,
        "Memory for large requests that are arriving, and as much again for answers that are not read; -1: no limit.",
        low=-1,
    )
    max_connections: int = option("max.connections", INT_MAX, "Connections that may stand at a time.", low=0)
    max_connections_per_ip: int = option(
        "max.connections.per.ip", INT_MAX, "Connections from one address that may stand at a time.", low=0
    )
    max_connections_per_ip_overrides: list[str] = option(
        "max.connections.per.ip.overrides", [], "Other limits for some addresses: ADDRESS:COUNT, with commas between."
    )
    message_max_bytes: int = option("message.max.bytes", 1048588, "Largest record batch.", low=0)
    fetch_max_bytes: int = option("fetch.max.bytes", 57671680, "Most bytes in the answer to one fetch.", low=1024)
    max_incremental_fetch_session_cache_slots: int = option(
        "max.incremental.fetch.session.cache.slots", 1000, "Fetch sessions kept.", low=0
    )

    max_request_partition_size_limit: int = option(
        "max.request.partition.size.limit", 2000, "Partitions in one answer to DescribeTopicPartitions.", low=1
    )

    auto_create_topics_enable: bool = option(
        "auto.create.topics.enable", True, "Whether asking for the metadata of an unknown topic creates it."
    )
    delete_topic_enable: bool = option("delete.topic.enable", True, "Whether topics can be deleted.")
    num_partitions: int = option("num.partitions", 1, "Partitions of a topic that is created without a number.", low=1)
    default_replication_factor: int = option(
        "default.replication.factor", 1, "Replication factor of a topic created without one; one broker has one.", low=1
    )

    log_segment_bytes: int = option("log.segment.bytes", 1073741824, "Size at which a segment is rolled.", low=1024)
    log_roll_ms: int = option("log.roll.ms", 604800000, "Age at which a segment is rolled.", low=1)
    log_roll_jitter_ms: int = option(
        "log.roll.jitter.ms", 0, "Most by which a segment is rolled early.", low=0, no_effect=ON_TIME
    )
    log_preallocate: bool = option("log.preallocate", False, "Whether files are made whole.", no_effect=FILES_GROW)
    log_segment_delete_delay_ms: int = option(
        "log.segment.delete.delay.ms", 60000, "Time before a file is deleted.", low=0, no_effect=GO_AT_ONCE
    )
    log_index_interval_bytes: int = option(
        "log.index.interval.bytes", 4096, "Bytes between entries of the offset index.", low=0
    )
    log_index_size_max_bytes: int = option("log.index.size.max.bytes", 10485760, "Largest index file.", low=4)
    log_retention_ms: int = option("log.retention.ms", 604800000, "Age after which records may go; -1: never.", low=-1)
    log_retention_bytes: int = option(
        "log.retention.bytes", -1, "Size of a partition above which old segments go; -1: none.", bits=64
    )
    log_remote_copy_lag_ms: int = option(
        "log.remote.copy.lag.ms",
        0,
        "Age at which a segment is kept elsewhere; -1: local.retention.ms.",
        low=-1,
        no_effect=NO_TIERS,
    )
    log_remote_copy_lag_bytes: int = option(
        "log.remote.copy.lag.bytes",
        -1,
        "Bytes after a segment at which it is kept elsewhere; -1: local.retention.bytes.",
        low=-1,
        bits=64,
        no_effect=NO_TIERS,
    )
    max_decompressed_message_bytes: int = option(
        "max.decompressed.message.bytes",
        2147483639,
        "Largest record after decompression.",
        low=1,
        high=2147483639,
        no_effect="a batch that is opened may have 16 MiB, whatever its records",
    )
    log_local_retention_ms: int = option(
        "log.local.retention.ms", -2, "Age after which segments go from here; -2: as all.", low=-2, no_effect=NO_TIERS
    )
    log_local_retention_bytes: int = option(
        "log.local.retention.bytes",
        -2,
        "Size above which segments go from here; -2: as all.",
        low=-2,
        bits=64,
        no_effect=NO_TIERS,
    )
    log_retention_check_interval_ms: int = option(
        "log.retention.check.interval.ms", 300000, "How often retention is looked at.", low=1
    )
    log_cleanup_policy: list[str] = option(
        "log.cleanup.policy", ["delete"], "What happens to old segments.", choices=("delete", "compact")
    )
    log_cleaner_enable: bool = option(
        "log.cleaner.enable", True, "Whether topics with cleanup.policy=compact are compacted."
    )
    log_cleaner_backoff_ms: int = option(
        "log.cleaner.backoff.ms", 15000, "How often logs are looked at for something to compact.", low=1
    )
    log_cleaner_dedupe_buffer_size: int = option(
        "log.cleaner.dedupe.buffer.size",
        134217728,
        "Memory for the keys of one compaction; a log with more is compacted in several goes.",
        low=1048576,
        bits=64,
    )
    log_cleaner_min_cleanable_ratio: float = option(
        "log.cleaner.min.cleanable.ratio",
        0.5,
        "Share of a log that must be uncompacted before compaction starts.",
        low=0,
        high=1,
    )
    log_cleaner_delete_retention_ms: int = option(
        "log.cleaner.delete.retention.ms", 86400000, "How long compaction keeps a tombstone.", low=0
    )
    log_cleaner_min_compaction_lag_ms: int = option(
        "log.cleaner.min.compaction.lag.ms", 0, "How long a record stays uncompacted at least.", low=0
    )
    log_cleaner_max_compaction_lag_ms: int = option(
        "log.cleaner.max.compaction.lag.ms", LONG_MAX, "How long a record stays uncompacted at most.", low=1
    )
    log_flush_interval_messages: int = option(
        "log.flush.interval.messages", LONG_MAX, "Records after which a log is flushed to disk.", low=1
    )
    log_flush_interval_ms: int = option(
        "log.flush.interval.ms", LONG_MAX, "Time after which a log is flushed to disk.", low=0
    )
    log_message_timestamp_type: str = option(
        "log.message.timestamp.type",
        "CreateTime",
        "Whether records keep the producer's time or take the broker's.",
        choices=("CreateTime", "LogAppendTime"),
    )
    log_message_timestamp_before_max_ms: int = option(
        "log.message.timestamp.before.max.ms", LONG_MAX, "How far a record's time may lie in the past.", low=0
    )
    log_message_timestamp_after_max_ms: int = option(
        "log.message.timestamp.after.max.ms", 3600000, "How far a record's time may lie in the future.", low=0
    )
    compression_type: str = option(
        "compression.type", "producer", "Final codec of topics; producer keeps what came.", choices=COMPRESSION_TYPES
    )
    compression_gzip_level: int = option(
        "compression.gzip.level", -1, "Level of gzip; -1: usual.", rule=GZIP_LEVELS, no_effect=USUAL_LEVEL
    )
    compression_lz4_level: int = option(
        "compression.lz4.level", 9, "Level of lz4.", low=1, high=17, no_effect=USUAL_LEVEL
    )
    compression_zstd_level: int = option(
        "compression.zstd.level", 3, "Level of zstd.", low=-131072, high=22, no_effect=USUAL_LEVEL
    )
    min_insync_replicas: int = option(
        "min.insync.replicas", 1, "Replicas that must have a write.", low=1, no_effect=ONE_STORAGE
    )
    unclean_leader_election_enable: bool = option(
        "unclean.leader.election.enable", False, "Whether any replica may lead.", no_effect=ONE_STORAGE
    )
    producer_id_expiration_ms: int = option(
        "producer.id.expiration.ms", 86400000, "Time after which an idle producer is forgotten.", low=1, bits=32
    )
    producer_id_expiration_check_interval_ms: int = option(
        "producer.id.expiration.check.interval.ms", 600000, "How often idle producers are looked for.", low=1, bits=32
    )
    kohort_producer_max_ids: int = option(
        "kohort.producer.max.ids",
        100000,
        "Idempotent producers that all partitions remember together: above it new ones are refused; -1: no limit.",
        low=-1,
    )

    group_min_session_timeout_ms: int = option(
        "group.min.session.timeout.ms", 6000, "Shortest session timeout that a member may ask for.", low=1, bits=32
    )
    group_max_session_timeout_ms: int = option(
        "group.max.session.timeout.ms", 1800000, "Longest session timeout that a member may ask for.", low=1, bits=32
    )
    group_initial_rebalance_delay_ms: int = option(
        "group.initial.rebalance.delay.ms",
        3000,
        "How long an empty group waits for more members to join.",
        low=0,
        bits=32,
    )
    group_max_size: int = option("group.max.size", INT_MAX, "Most members of one group.", low=1)
    group_coordinator_max_bytes: int = option(
        "group.coordinator.max.bytes",
        134217728,
        "Memory, about, that groups may hold: above it new groups and members are refused; -1: no limit.",
        low=-1,
    )
    group_coordinator_rebalance_protocols: list[str] = option(
        "group.coordinator.rebalance.protocols",
        ["classic", "consumer", "streams"],
        "Group protocols that are served: consumer is that of KIP-848; of streams there is nothing here.",
        choices=("classic", "consumer", "share", "streams"),
        rule=PROTOCOLS,
    )
    group_consumer_session_timeout_ms: int = option(
        "group.consumer.session.timeout.ms", 45000, "Silence after which a member is removed (KIP-848).", low=1, bits=32
    )
    group_consumer_min_session_timeout_ms: int = option(
        "group.consumer.min.session.timeout.ms", 45000, "Shortest session timeout of a group.", low=1, bits=32
    )
    group_consumer_max_session_timeout_ms: int = option(
        "group.consumer.max.session.timeout.ms", 60000, "Longest session timeout of a group.", low=1, bits=32
    )
    group_consumer_heartbeat_interval_ms: int = option(
        "group.consumer.heartbeat.interval.ms", 5000, "How often members say that they are there.", low=1, bits=32
    )
    group_consumer_min_heartbeat_interval_ms: int = option(
        "group.consumer.min.heartbeat.interval.ms", 5000, "Shortest heartbeat interval of a group.", low=1, bits=32
    )
    group_consumer_max_heartbeat_interval_ms: int = option(
        "group.consumer.max.heartbeat.interval.ms", 15000, "Longest heartbeat interval of a group.", low=1, bits=32
    )
    group_consumer_assignment_interval_ms: int = option(
        "group.consumer.assignment.interval.ms",
        1000,
        "Time between two target assignments of a group, at least; 0: none.",
        low=0,
        bits=32,
    )
    group_consumer_min_assignment_interval_ms: int = option(
        "group.consumer.min.assignment.interval.ms", 0, "Shortest assignment interval of a group.", low=0, bits=32
    )
    group_consumer_max_assignment_interval_ms: int = option(
        "group.consumer.max.assignment.interval.ms", 15000, "Longest assignment interval of a group.", low=0, bits=32
    )
    group_consumer_max_size: int = option(
        "group.consumer.max.size", INT_MAX, "Most members of one consumer group (KIP-848).", low=1
    )
    group_consumer_assignors: list[str] = option(
        "group.consumer.assignors",
        ["uniform", "range"],
        "Assignors that members may ask for; the first is for those who ask for none.",
        rule=ASSIGNORS,
    )
    group_consumer_migration_policy: str = option(
        "group.consumer.migration.policy",
        "bidirectional",
        "Which way groups with members may go between the classic protocol and that of KIP-848.",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
    )
    group_consumer_regex_refresh_interval_ms: int = option(
        "group.consumer.regex.refresh.interval.ms",
        600000,
        "How often the regular expressions of members are resolved again.",
        low=10000,
        bits=32,
    )
    offset_metadata_max_bytes: int = option(
        "offset.metadata.max.bytes", 4096, "Longest metadata of a commit, in UTF-16 units.", low=0
    )
    offsets_commit_timeout_ms: int = option(
        "offsets.commit.timeout.ms", 5000, "How long a coordinator's write may take.", low=1, bits=32
    )
    offsets_topic_num_partitions: int = option(
        "offsets.topic.num.partitions", 50, "Partitions of __consumer_offsets.", low=1
    )
    offsets_topic_replication_factor: int = option(
        "offsets.topic.replication.factor",
        3,
        "Replicas of __consumer_offsets, as far as there are nodes.",
        low=1,
        bits=16,
    )
    offsets_topic_segment_bytes: int = option(
        "offsets.topic.segment.bytes", 104857600, "Segment size of __consumer_offsets.", low=1
    )
    offsets_retention_minutes: int = option(
        "offsets.retention.minutes", 10080, "How long offsets of an empty group are kept.", low=1
    )
    offsets_retention_check_interval_ms: int = option(
        "offsets.retention.check.interval.ms", 600000, "How often offsets are checked for expiry.", low=1
    )

    transaction_max_timeout_ms: int = option(
        "transaction.max.timeout.ms", 900000, "Longest time that a producer may let a transaction take.", low=1, bits=32
    )
    transactional_id_expiration_ms: int = option(
        "transactional.id.expiration.ms", 604800000, "How long an unused id is remembered.", low=1, bits=32
    )
    transaction_remove_expired_interval_ms: int = option(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3600000,
        "How often that is looked at.",
        low=1,
        bits=32,
    )
    transaction_coordinator_max_bytes: int = option(
        "transaction.coordinator.max.bytes",
        67108864,
        "Memory, about, that transactional ids may hold: above it new ones are refused; -1: no limit.",
        low=-1,
    )
    transaction_state_log_num_partitions: int = option(
        "transaction.state.log.num.partitions", 50, "Partitions of __transaction_state.", low=1
    )
    transaction_state_log_replication_factor: int = option(
        "transaction.state.log.replication.factor",
        3,
        "Replicas of __transaction_state, as far as there are nodes.",
        low=1,
        bits=16,
    )
    transaction_state_log_segment_bytes: int = option(
        "transaction.state.log.segment.bytes", 104857600, "Segment size of __transaction_state.", low=1
    )

    def __post_init__(self) -> None:
        check_group_bounds(lambda name: getattr(self, attribute_of(type(self), name)))

    @property
    def consumer_assignors(self) -> list[str]:
        """Assignors that members may request; the first is the default."""
        return assignor_names(self.group_consumer_assignors)
