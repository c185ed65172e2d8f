"""Options of clients, with the names, defaults and bounds of Apache Kafka 4.4."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from kohort.config.broker import GZIP_LEVELS, LONG_MAX, USUAL_LEVEL
from kohort.config.client_security import ClientSecurityConfig
from kohort.config.options import INT_MAX, ValueRule, option
from kohort.errors import ConfigError

NO_PUSH: Final = "a client pushes no metrics; call metrics()"
NO_REPORTERS: Final = "metrics() returns the metrics, kohort.MetricsCollector exports them to Prometheus"
ALL_LEVELS: Final = "all metrics are recorded"
OF_THE_SYSTEM: Final = "the operating system sizes the socket buffers"
AT_ONCE: Final = "a client bootstraps again as soon as no known node is reachable"
BY_THE_SYSTEM: Final = "the operating system resolves names at each connection"
LEVELS: Final = ValueRule(lambda level: level in ("INFO", "DEBUG", "TRACE"), "INFO, DEBUG or TRACE")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoEffectConfig(ClientSecurityConfig):
    """Options of Kafka's clients without effect."""

    client_dns_lookup: str = option(
        "use_all_dns_ips",
        "DNS lookup of host names.",
        choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        no_effect=BY_THE_SYSTEM,
    )
    bootstrap_resolve_timeout_ms: int = option(
        0, "Time limit to resolve bootstrap.servers; 0: when the client is created.", low=0, no_effect=BY_THE_SYSTEM
    )
    metadata_recovery_rebootstrap_trigger_ms: int = option(
        300000, "Time without metadata from any node before the client bootstraps again.", low=0, no_effect=AT_ONCE
    )
    socket_connection_setup_timeout_max_ms: int = option(
        30000,
        "Longest time limit of connection setup after failures.",
        no_effect="each setup may take socket.connection.setup.timeout.ms",
    )
    send_buffer_bytes: int = option(
        131072, "Send buffer of a socket; -1: the operating system's.", low=-1, no_effect=OF_THE_SYSTEM
    )
    receive_buffer_bytes: int = option(
        65536, "Receive buffer of a socket; -1: the operating system's.", low=-1, no_effect=OF_THE_SYSTEM
    )
    enable_metrics_push: bool = option(True, "True to push metrics to the cluster (KIP-714).", no_effect=NO_PUSH)
    metric_reporters: list[str] = option([], "Classes that report metrics.", no_effect=NO_REPORTERS)
    metrics_recording_level: str = option("INFO", "Level of recorded metrics.", rule=LEVELS, no_effect=ALL_LEVELS)


MAX_IN_FLIGHT_IDEMPOTENT: Final = 5
"""Limit of in-flight batches of an idempotent producer: a partition remembers this many of its batches."""
INSTEAD_OF_CLASSIC: Final = {
    "session.timeout.ms": "set group.consumer.session.timeout.ms of the broker, or consumer.session.timeout.ms of "
    "the group",
    "heartbeat.interval.ms": "set group.consumer.heartbeat.interval.ms of the broker, or "
    "consumer.heartbeat.interval.ms of the group",
    "partition.assignment.strategy": "the coordinator assigns partitions; select its assignor with "
    "group.remote.assignor",
}
"""Options of the classic group protocol, and their replacements with the consumer protocol."""
STRATEGIES: Final = ValueRule(lambda name: name.lower() in ("rebootstrap", "none"), "rebootstrap or none")
PARTITIONERS: Final = (
    "murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a", "random",
)  # fmt: skip
"""Key hashes by librdkafka's names. The names with ``_random`` spread records without a key."""
PARTITIONER: Final = ValueRule(
    lambda given: callable(given) or given in PARTITIONERS,
    f"one of {', '.join(PARTITIONERS)}, or a function of (key, number of partitions)",
)
SERIALIZERS: Final = ("text", "json", "int32", "int64", "float64", "avro", "json-schema")
"""Names of serializers and deserializers; the code is in ``schemas``, a higher layer."""
SERIALIZER: Final = ValueRule(
    lambda given: given is None or callable(given) or given in SERIALIZERS,
    f"a function of one argument, a kohort.Serializer or Deserializer, or one of {', '.join(SERIALIZERS)}",
)
_SCHEME: Final = re.compile(r"(?i:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://")
ANY_PARTITION: Final = "records without a key use any partition"
ONE_PHASE: Final = ValueRule(lambda value: value is False, "false: two-phase commit is not supported")
_DURATION: Final = re.compile(r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig(NoEffectConfig):
    """Options of every client."""

    bootstrap_servers: list[str] = option([], "Addresses of the first brokers, HOST:PORT; at least one.")
    client_id: str = option("kohort", "Name of this client in the broker's logs and groups.")
    request_timeout_ms: int = option(30000, "Time limit of one request.", low=0, high=INT_MAX)
    default_api_timeout_ms: int = option(60000, "Time limit of a blocking call.", low=0, high=INT_MAX)
    retry_backoff_ms: int = option(100, "First delay before a request is retried.", low=0)
    retry_backoff_max_ms: int = option(1000, "Longest delay before a retry.", low=0)
    reconnect_backoff_ms: int = option(50, "First delay before a reconnect.", low=0)
    reconnect_backoff_max_ms: int = option(1000, "Longest delay before a reconnect.", low=0)
    socket_connection_setup_timeout_ms: int = option(10000, "Time limit of connection setup.", low=1)
    connections_max_idle_ms: int = option(540000, "Idle time before a connection is closed; -1: never.", low=-1)
    metadata_max_age_ms: int = option(300000, "Age at which metadata is refreshed.", low=0)
    metadata_cluster_check_enable: bool = option(
        True, "True to check that a node has the expected cluster id and node id (KIP-1242)."
    )
    metadata_recovery_strategy: str = option(
        "rebootstrap", "Recovery from unusable metadata: bootstrap again, or fail (KIP-1102).", rule=STRATEGIES
    )
    receive_message_max_bytes: int = option(1_000_000_000, "Size limit of a response.", low=1024, high=INT_MAX)
    metrics_num_samples: int = option(2, "Number of sample windows of a metric.", low=1)
    metrics_sample_window_ms: int = option(30000, "Length of a sample window.", low=0)

    def __post_init__(self) -> None:
        NoEffectConfig.__post_init__(self)
        check_servers(self.bootstrap_servers)

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        return [parse_address(text) for text in self.bootstrap_servers]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Options of a consumer."""

    group_id: str | None = option(None, "Group of the consumer; commits need one.")
    group_instance_id: str | None = option(None, "Instance id of a static member (KIP-345).")
    group_protocol: str = option(
        "classic",
        "Group protocol: members assign partitions (classic), or the coordinator (consumer, KIP-848).",
        choices=("classic", "consumer"),
    )
    group_remote_assignor: str | None = option(None, "Requested assignor, with group.protocol=consumer.")
    session_timeout_ms: int = option(
        45000, "Time without heartbeats after which the coordinator removes the member.", low=0, high=INT_MAX
    )
    heartbeat_interval_ms: int = option(3000, "Heartbeat interval.", low=1)
    max_poll_interval_ms: int = option(300000, "Longest time between polls, and of a rebalance.", low=1, high=INT_MAX)
    max_poll_records: int = option(500, "Limit of records per poll.", low=1)
    partition_assignment_strategy: list[Any] = option(
        ["range", "cooperative-sticky"],
        "Supported assignors, preferred one first; names, or objects of kohort.assignor.",
        choices=("range", "roundrobin", "sticky", "cooperative-sticky", "co-partitioned", "rack-aware", "redundant"),
    )
    enable_auto_commit: bool | None = option(
        None, "True to commit positions in the background; default: true with a group.id.", of=bool
    )
    auto_commit_interval_ms: int = option(5000, "Interval of automatic commits.", low=0)
    auto_offset_reset: str = option(
        "latest", "Start position without a committed offset: earliest, latest, none, by_duration:…"
    )
    fetch_min_bytes: int = option(1, "Bytes that a fetch waits for.", low=0, high=INT_MAX)
    fetch_max_wait_ms: int = option(500, "Longest wait of a fetch for fetch.min.bytes.", low=0, high=INT_MAX)
    fetch_max_bytes: int = option(52428800, "Size limit of a fetch response.", low=0, high=INT_MAX)
    max_partition_fetch_bytes: int = option(
        1048576, "Size limit of one partition in a fetch response.", low=0, high=INT_MAX
    )
    isolation_level: str = option(
        "read_uncommitted",
        "Visibility of records of open and aborted transactions.",
        choices=("read_uncommitted", "read_committed"),
    )
    check_crcs: bool = option(True, "True to check the CRC of each batch.")
    allow_auto_create_topics: bool = option(True, "True to let a subscription create a topic, if the broker allows it.")
    exclude_internal_topics: bool = option(True, "True to exclude internal topics from pattern subscriptions.")
    client_rack: str = option("", "Rack of this client, to fetch from the nearest replica.")
    key_deserializer: Any = option(
        None,
        "Deserializer of keys: a function of the bytes (None: null), a kohort.Deserializer, or the name of one.",
        of=object,
        rule=SERIALIZER,
    )
    value_deserializer: Any = option(
        None,
        "Deserializer of values: a function of the bytes (None: null), a kohort.Deserializer, or the name of one.",
        of=object,
        rule=SERIALIZER,
    )
    on_decode_error: str = option(
        "raise",
        "Action on a key or value that its deserializer rejects: raise UndecodableValue, skip the record, or return a "
        "kohort.Undecodable in its place.",
        choices=("raise", "skip", "undecodable"),
    )

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        if self.group_id == "":
            raise ConfigError("group.id='': expected a name; omit it to consume without a group")
        if self.group_instance_id == "":
            raise ConfigError("group.instance.id='': expected a name; omit it for a dynamic member")
        if self.enable_auto_commit and self.group_id is None:
            raise ConfigError("enable.auto.commit=true needs a group.id to commit to")
        if self.enable_auto_commit is None:
            object.__setattr__(self, "enable_auto_commit", self.group_id is not None)
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat.interval.ms={self.heartbeat_interval_ms} must be below "
                f"session.timeout.ms={self.session_timeout_ms}"
            )
        if self.group_remote_assignor == "":
            raise ConfigError("group.remote.assignor='': expected a name; omit it for the broker's default")
        if not self.partition_assignment_strategy:
            raise ConfigError("partition.assignment.strategy is empty: expected at least one assignor")
        check_offset_reset(self.auto_offset_reset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Options of a producer."""

    acks: str = option(
        "all",
        "Required acknowledgements: all in-sync replicas, the leader (1), none (0).",
        choices=("all", "-1", "0", "1"),
    )
    enable_idempotence: bool | None = option(
        None, "True to write each record once, in order; default: true with acks=all.", of=bool
    )
    linger_ms: int = option(5, "Time that a batch waits for more records.", low=0)
    batch_size: int = option(16384, "Size limit of a batch; a larger record is sent alone.", low=0)
    buffer_memory: int = option(33554432, "Memory limit of undelivered records.", low=0, bits=64)
    max_block_ms: int = option(60000, "Longest wait of send() for metadata or buffer memory.", low=0)
    max_request_size: int = option(1048576, "Size limit of a record and of a request.", low=0)
    delivery_timeout_ms: int = option(120000, "Longest time from send() to success or failure.", low=0, high=INT_MAX)
    compression_type: str = option("none", "Codec of batches.", choices=("none", "gzip", "snappy", "lz4", "zstd"))
    max_in_flight_requests_per_connection: int = option(5, "Limit of unanswered requests per broker.", low=1)
    transactional_id: str | None = option(
        None, "Id of a transactional producer; it fences an earlier producer with the same id (KIP-98)."
    )
    transaction_timeout_ms: int = option(60000, "Age at which a coordinator aborts a transaction.", low=1, high=INT_MAX)
    retries: int = option(INT_MAX, "Retries of a batch; delivery.timeout.ms also ends them.", low=0)
    metadata_max_idle_ms: int = option(
        300000,
        "Time that the metadata of an unused topic is kept.",
        low=5000,
        no_effect="topics are known until the producer is closed",
    )
    compression_gzip_level: int = option(-1, "Level of gzip: 1 to 9, or -1.", rule=GZIP_LEVELS, no_effect=USUAL_LEVEL)
    compression_lz4_level: int = option(9, "Level of lz4.", low=1, high=17, no_effect=USUAL_LEVEL)
    compression_zstd_level: int = option(3, "Level of zstd.", low=-131072, high=22, no_effect=USUAL_LEVEL)
    partitioner_adaptive_partitioning_enable: bool = option(
        True, "True to send records without a key to faster brokers.", no_effect=ANY_PARTITION
    )
    partitioner_availability_timeout_ms: int = option(
        0, "Time before records without a key avoid an unavailable partition; 0: never.", low=0, no_effect=ANY_PARTITION
    )
    partitioner_rack_aware: bool = option(
        False, "True to send records without a key to leaders in the same rack.", no_effect=ANY_PARTITION
    )
    partitioner: Any = option(
        "murmur2_random",
        "Partitioner: murmur2_random (Java), consistent_random (librdkafka), or a function of (key, partition count).",
        of=object,
        rule=PARTITIONER,
    )
    key_serializer: Any = option(
        None,
        "Serializer of keys: a function that returns bytes, text or None, a kohort.Serializer, or the name of one.",
        of=object,
        rule=SERIALIZER,
    )
    value_serializer: Any = option(
        None,
        "Serializer of values: a function that returns bytes, text or None, a kohort.Serializer, or the name of one.",
        of=object,
        rule=SERIALIZER,
    )
    partitioner_ignore_keys: bool = option(False, "True to treat records with a key like those without one.")
    transaction_two_phase_commit_enable: bool = option(
        False, "True to end transactions by an external coordinator (KIP-939).", rule=ONE_PHASE
    )

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        in_flight = self.max_in_flight_requests_per_connection
        if self.acks == "-1":
            object.__setattr__(self, "acks", "all")
        if self.transactional_id is not None:
            self._check_transactional()
        if self.enable_idempotence is None:
            able = self.acks == "all" and self.retries > 0 and in_flight <= MAX_IN_FLIGHT_IDEMPOTENT
            object.__setattr__(self, "enable_idempotence", able)
        if self.enable_idempotence and self.acks != "all":
            raise ConfigError(f"enable.idempotence=true needs acks=all, not acks={self.acks}")
        if self.enable_idempotence and self.retries == 0:
            raise ConfigError("enable.idempotence=true needs retries of at least 1")
        if self.enable_idempotence and in_flight > MAX_IN_FLIGHT_IDEMPOTENT:
            raise ConfigError(
                f"enable.idempotence=true needs max.in.flight.requests.per.connection of at most "
                f"{MAX_IN_FLIGHT_IDEMPOTENT}, not {in_flight}"
            )
        least = self.linger_ms + self.request_timeout_ms
        if self.delivery_timeout_ms < least:
            raise ConfigError(
                f"delivery.timeout.ms={self.delivery_timeout_ms} must be at least linger.ms + request.timeout.ms = "
                f"{least}"
            )

    def _check_transactional(self) -> None:
        """Raise ConfigError for options that break exactly-once delivery."""
        if not self.transactional_id:
            raise ConfigError("transactional.id must not be empty")
        if self.enable_idempotence is False:
            raise ConfigError("transactional.id needs enable.idempotence=true")
        object.__setattr__(self, "enable_idempotence", True)

    @property
    def acks_on_the_wire(self) -> int:
        return -1 if self.acks == "all" else int(self.acks)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig(ClientConfig):
    """Options of an admin client."""


def check_servers(servers: list[str]) -> None:
    """Raise ConfigError unless there is at least one HOST:PORT, and no duplicate."""
    if not servers:
        raise ConfigError("bootstrap.servers is missing: expected HOST:PORT, or several with commas between")
    addresses = [parse_address(text) for text in servers]
    for address, text in zip(addresses, servers, strict=True):
        if addresses.count(address) > 1:
            raise ConfigError(f"bootstrap.servers names {text!r} twice")


def parse_address(text: str) -> tuple[str, int]:
    """Parse ``HOST:PORT`` or ``[IPV6]:PORT``. Raises ConfigError.

    A protocol prefix (``SSL://``) has no effect, as in Java's clients: security.protocol decides.
    """
    host, colon, port = _SCHEME.sub("", text.strip(), count=1).rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"bootstrap.servers={text!r}: expected HOST:PORT, such as localhost:9092")
    return host, int(port)


def check_offset_reset(text: str) -> None:
    """Raise ConfigError unless ``text`` is a policy of ``auto.offset.reset``."""
    if text in ("earliest", "latest", "none") or reset_duration_ms(text) is not None:
        return
    raise ConfigError(
        f"auto.offset.reset={text!r}: expected earliest, latest, none, or by_duration: and an ISO-8601 duration such "
        "as by_duration:PT1H30M"
    )


def reset_duration_ms(policy: str) -> int | None:
    """Return the milliseconds of ``by_duration:PnDTnHnMnS`` (KIP-1106), None for other policies."""
    prefix, _, text = policy.partition(":")
    match = _DURATION.fullmatch(text.upper()) if prefix == "by_duration" else None
    if match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    total = int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
    return total if total <= LONG_MAX else None
