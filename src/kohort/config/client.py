"""The clients' options: Kafka's names, defaults and bounds, as in Apache Kafka 4.4."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kohort.config.broker import GZIP_LEVELS, LONG_MAX, USUAL_LEVEL
from kohort.config.client_security import ClientSecurityConfig
from kohort.config.options import INT_MAX, ValueRule, gathered_prefixes, option, options_of, parse_config
from kohort.config.other_names import instead_of
from kohort.config.security_names import is_hidden, translated
from kohort.errors import ConfigError
from kohort.nearest import did_you_mean

NO_PUSH: Final = "a client pushes no metrics; call metrics()"
NO_REPORTERS: Final = "metrics() returns the metrics, kohort.MetricsCollector exports them to Prometheus"
ALL_LEVELS: Final = "all metrics are kept"
OF_THE_SYSTEM: Final = "the operating system sizes the buffers of sockets"
AT_ONCE: Final = "bootstrap addresses are asked as soon as no node that is known can be"
BY_THE_SYSTEM: Final = "the operating system resolves names, each time that it is connected"
LEVELS: Final = ValueRule(lambda level: level in ("INFO", "DEBUG", "TRACE"), "INFO, DEBUG or TRACE")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoEffectConfig(ClientSecurityConfig):
    """Options of Kafka's clients without effect here."""

    client_dns_lookup: str = option(
        "client.dns.lookup",
        "use_all_dns_ips",
        "How names of hosts are looked up.",
        choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        no_effect=BY_THE_SYSTEM,
    )
    bootstrap_resolve_timeout_ms: int = option(
        "bootstrap.resolve.timeout.ms",
        0,
        "How long bootstrap.servers may take to be resolved; 0: as soon as the client is made.",
        low=0,
        no_effect=BY_THE_SYSTEM,
    )
    metadata_recovery_rebootstrap_trigger_ms: int = option(
        "metadata.recovery.rebootstrap.trigger.ms",
        300000,
        "How long no node gives metadata before the client begins anew.",
        low=0,
        no_effect=AT_ONCE,
    )
    socket_connection_setup_timeout_max_ms: int = option(
        "socket.connection.setup.timeout.max.ms",
        30000,
        "How long a connection may take to stand when many have failed.",
        no_effect="each may take socket.connection.setup.timeout.ms",
    )
    send_buffer_bytes: int = option(
        "send.buffer.bytes", 131072, "Buffer of a socket for what leaves; -1: the system's.", low=-1,
        no_effect=OF_THE_SYSTEM,
    )  # fmt: skip
    receive_buffer_bytes: int = option(
        "receive.buffer.bytes", 65536, "Buffer of a socket for what comes; -1: the system's.", low=-1,
        no_effect=OF_THE_SYSTEM,
    )  # fmt: skip
    enable_metrics_push: bool = option(
        "enable.metrics.push", True, "Whether the cluster may ask for metrics (KIP-714).", no_effect=NO_PUSH
    )
    metric_reporters: list[str] = option("metric.reporters", [], "Classes that report metrics.", no_effect=NO_REPORTERS)
    metrics_recording_level: str = option(
        "metrics.recording.level", "INFO", "Which metrics are kept.", rule=LEVELS, no_effect=ALL_LEVELS
    )


C = TypeVar("C", bound="ClientConfig")

MAX_IN_FLIGHT_IDEMPOTENT: Final = 5
"""A broker remembers this many batches of a producer and partition, so order survives retries up to there."""
INSTEAD_OF_CLASSIC: Final = {
    "session.timeout.ms": "the broker says it for all (group.consumer.session.timeout.ms), or for the group "
    "(consumer.session.timeout.ms of the group)",
    "heartbeat.interval.ms": "the broker says it for all (group.consumer.heartbeat.interval.ms), or for the group "
    "(consumer.heartbeat.interval.ms of the group)",
    "partition.assignment.strategy": "the coordinator assigns, with one of group.consumer.assignors; "
    "group.remote.assignor says which",
}
"""Options of the classic group protocol, and what took their place."""
STRATEGIES: Final = ValueRule(lambda name: name.lower() in ("rebootstrap", "none"), "rebootstrap or none")
PARTITIONERS: Final = (
    "murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a", "random",
)  # fmt: skip
"""Names of key hashes as librdkafka has them. The names with ``_random`` spread records without a key."""
PARTITIONER: Final = ValueRule(
    lambda given: callable(given) or given in PARTITIONERS,
    f"one of {', '.join(PARTITIONERS)}, or a function of (key, number of partitions)",
)
_SCHEME: Final = re.compile(r"(?i:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://")
ANY_PARTITION: Final = "a record without a key goes to any partition"
ONE_PHASE: Final = ValueRule(lambda value: value is False, "false: a producer ends its transactions itself")
_DURATION: Final = re.compile(r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig(NoEffectConfig):
    """Options of every client."""

    bootstrap_servers: list[str] = option("bootstrap.servers", [], "HOST:PORT of brokers to ask first; at least one.")
    client_id: str = option("client.id", "kohort", "Name of this client in the broker's logs and groups.")
    request_timeout_ms: int = option("request.timeout.ms", 30000, "How long one request may wait.", low=0, high=INT_MAX)
    default_api_timeout_ms: int = option(
        "default.api.timeout.ms", 60000, "How long a blocking call may take.", low=0, high=INT_MAX
    )
    retry_backoff_ms: int = option("retry.backoff.ms", 100, "First wait before a request is repeated.", low=0)
    retry_backoff_max_ms: int = option("retry.backoff.max.ms", 1000, "Longest such wait.", low=0)
    reconnect_backoff_ms: int = option("reconnect.backoff.ms", 50, "First wait before connecting again.", low=0)
    reconnect_backoff_max_ms: int = option("reconnect.backoff.max.ms", 1000, "Longest such wait.", low=0)
    socket_connection_setup_timeout_ms: int = option(
        "socket.connection.setup.timeout.ms", 10000, "How long a connection may take to stand.", low=1
    )
    connections_max_idle_ms: int = option(
        "connections.max.idle.ms", 540000, "A connection without traffic for this long is closed; -1: never.", low=-1
    )
    metadata_max_age_ms: int = option(
        "metadata.max.age.ms", 300000, "Age after which metadata is asked for again.", low=0
    )
    metadata_cluster_check_enable: bool = option(
        "metadata.cluster.check.enable",
        True,
        "Whether a node is asked to be the one that is meant, of the cluster that is meant (KIP-1242).",
    )
    metadata_recovery_strategy: str = option(
        "metadata.recovery.strategy",
        "rebootstrap",
        "Whether a client that is told so begins anew at its bootstrap addresses (KIP-1102).",
        rule=STRATEGIES,
    )
    receive_message_max_bytes: int = option(
        "receive.message.max.bytes", 1_000_000_000, "Largest response that is read.", low=1024, high=INT_MAX
    )
    metrics_num_samples: int = option("metrics.num.samples", 2, "Windows of which a metric is made.", low=1)
    metrics_sample_window_ms: int = option("metrics.sample.window.ms", 30000, "How long one of them is.", low=0)

    def __post_init__(self) -> None:
        NoEffectConfig.__post_init__(self)
        check_servers(self.bootstrap_servers)

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        """Parsed bootstrap addresses."""
        return [parse_address(text) for text in self.bootstrap_servers]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Options of a consumer."""

    group_id: str | None = option("group.id", None, "The consumer group; without one, nothing can be committed.")
    group_instance_id: str | None = option("group.instance.id", None, "Makes this a static member (KIP-345).")
    group_protocol: str = option(
        "group.protocol",
        "classic",
        "Assignment by the members (classic) or by the coordinator (consumer, KIP-848).",
        choices=("classic", "consumer"),
    )
    group_remote_assignor: str | None = option(
        "group.remote.assignor", None, "The coordinator's assignor to vote for, with group.protocol=consumer."
    )
    session_timeout_ms: int = option(
        "session.timeout.ms", 45000, "Silence after which the coordinator removes the member.", low=0, high=INT_MAX
    )
    heartbeat_interval_ms: int = option("heartbeat.interval.ms", 3000, "Time between heartbeats.", low=1)
    max_poll_interval_ms: int = option(
        "max.poll.interval.ms", 300000, "Longest time between polls, and for a rebalance.", low=1, high=INT_MAX
    )
    max_poll_records: int = option("max.poll.records", 500, "Most records that one poll returns.", low=1)
    partition_assignment_strategy: list[Any] = option(
        "partition.assignment.strategy",
        ["range", "cooperative-sticky"],
        "Assignors this member offers, the preferred one first; by name, or made with kohort.assignor.",
        choices=("range", "roundrobin", "sticky", "cooperative-sticky", "co-partitioned", "rack-aware", "redundant"),
    )
    enable_auto_commit: bool | None = option(
        "enable.auto.commit", None, "Commit positions in the background; default: true with a group.id.", of=bool
    )
    auto_commit_interval_ms: int = option("auto.commit.interval.ms", 5000, "Time between such commits.", low=0)
    auto_offset_reset: str = option(
        "auto.offset.reset",
        "latest",
        "Where to start without a committed offset: earliest, latest, none, by_duration:…",
    )
    fetch_min_bytes: int = option("fetch.min.bytes", 1, "Bytes a fetch waits for.", low=0, high=INT_MAX)
    fetch_max_wait_ms: int = option("fetch.max.wait.ms", 500, "How long a fetch waits for them.", low=0, high=INT_MAX)
    fetch_max_bytes: int = option("fetch.max.bytes", 52428800, "Most bytes in one fetch.", low=0, high=INT_MAX)
    max_partition_fetch_bytes: int = option(
        "max.partition.fetch.bytes", 1048576, "Most bytes of one partition in one fetch.", low=0, high=INT_MAX
    )
    isolation_level: str = option(
        "isolation.level",
        "read_uncommitted",
        "Whether records of open and aborted transactions are seen.",
        choices=("read_uncommitted", "read_committed"),
    )
    check_crcs: bool = option("check.crcs", True, "Whether the checksum of each batch is checked.")
    allow_auto_create_topics: bool = option(
        "allow.auto.create.topics", True, "Whether subscribing may create a topic, where the broker does."
    )
    exclude_internal_topics: bool = option(
        "exclude.internal.topics", True, "Whether pattern subscriptions leave internal topics out."
    )
    client_rack: str = option("client.rack", "", "Rack of this client, for fetching from the nearest replica.")

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        if self.group_id == "":
            raise ConfigError("group.id='': expected a name; leave it out to consume without a group")
        if self.group_instance_id == "":
            raise ConfigError("group.instance.id='': expected a name; leave it out for a dynamic member")
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
            raise ConfigError("group.remote.assignor='': expected a name; leave it out for the broker's own choice")
        if not self.partition_assignment_strategy:
            raise ConfigError("partition.assignment.strategy is empty: expected at least one assignor")
        check_offset_reset(self.auto_offset_reset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Options of a producer."""

    acks: str = option(
        "acks", "all", "Who must have a batch: all in-sync replicas, the leader (1), nobody (0).",
        choices=("all", "-1", "0", "1"),
    )  # fmt: skip
    enable_idempotence: bool | None = option(
        "enable.idempotence", None, "Each record once, in order; default: true where acks is all.", of=bool
    )
    linger_ms: int = option("linger.ms", 5, "How long a batch waits for more records.", low=0)
    batch_size: int = option("batch.size", 16384, "Most bytes of a batch; a larger record is sent alone.", low=0)
    buffer_memory: int = option("buffer.memory", 33554432, "Bytes that may wait to be delivered.", low=0, bits=64)
    max_block_ms: int = option(
        "max.block.ms", 60000, "How long send() may wait for metadata or for buffer memory.", low=0
    )
    max_request_size: int = option("max.request.size", 1048576, "Largest record, and largest request.", low=0)
    delivery_timeout_ms: int = option(
        "delivery.timeout.ms", 120000, "From send() to success or failure, at the longest.", low=0, high=INT_MAX
    )
    compression_type: str = option(
        "compression.type", "none", "How batches are compressed.", choices=("none", "gzip", "snappy", "lz4", "zstd")
    )
    max_in_flight_requests_per_connection: int = option(
        "max.in.flight.requests.per.connection", 5, "Requests sent to a broker before the first is answered.", low=1
    )
    transactional_id: str | None = option(
        "transactional.id", None, "Makes this a transactional producer; one at a time has this name (KIP-98)."
    )
    transaction_timeout_ms: int = option(
        "transaction.timeout.ms", 60000, "Age at which the coordinator aborts a transaction.", low=1, high=INT_MAX
    )
    retries: int = option("retries", INT_MAX, "Attempts after the first; delivery.timeout.ms ends them too.", low=0)
    metadata_max_idle_ms: int = option(
        "metadata.max.idle.ms",
        300000,
        "How long a topic is known that nothing is sent to.",
        low=5000,
        no_effect="topics are known until the producer is closed",
    )
    compression_gzip_level: int = option(
        "compression.gzip.level", -1, "Level of gzip: 1 to 9, or -1.", rule=GZIP_LEVELS, no_effect=USUAL_LEVEL
    )
    compression_lz4_level: int = option(
        "compression.lz4.level", 9, "Level of lz4.", low=1, high=17, no_effect=USUAL_LEVEL
    )
    compression_zstd_level: int = option(
        "compression.zstd.level", 3, "Level of zstd.", low=-131072, high=22, no_effect=USUAL_LEVEL
    )
    partitioner_adaptive_partitioning_enable: bool = option(
        "partitioner.adaptive.partitioning.enable",
        True,
        "Whether records without a key go where brokers are quick.",
        no_effect=ANY_PARTITION,
    )
    partitioner_availability_timeout_ms: int = option(
        "partitioner.availability.timeout.ms",
        0,
        "How long a partition may not be had before records without a key go elsewhere; 0: for ever.",
        low=0,
        no_effect=ANY_PARTITION,
    )
    partitioner_rack_aware: bool = option(
        "partitioner.rack.aware",
        False,
        "Whether records without a key go to partitions whose leader is near.",
        no_effect=ANY_PARTITION,
    )
    partitioner: Any = option(
        "partitioner",
        "murmur2_random",
        "How a key chooses the partition: murmur2_random as Java's clients, consistent_random (CRC32) as librdkafka's, "
        "or your own function of (key, number of partitions).",
        of=object,
        rule=PARTITIONER,
    )
    partitioner_ignore_keys: bool = option(
        "partitioner.ignore.keys", False, "Whether records with a key go where those without one go."
    )
    transaction_two_phase_commit_enable: bool = option(
        "transaction.two.phase.commit.enable",
        False,
        "Whether others decide on the end of transactions (KIP-939).",
        rule=ONE_PHASE,
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
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError(
                f"delivery.timeout.ms={self.delivery_timeout_ms} must be at least linger.ms + request.timeout.ms "
                f"= {self.linger_ms + self.request_timeout_ms}"
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


def client_config(cls: type[C], config: Mapping[str, Any] | None, options: Mapping[str, Any]) -> C:
    """Build a client's configuration from Kafka's dotted names in a mapping, from keywords, or from both.

    Raises ConfigError for an unknown option, one given twice with different values, a value out of bounds, or options
    that exclude each other.
    """
    if config is not None and not isinstance(config, Mapping):
        raise ConfigError(
            f"the first argument is a mapping of options, not {config!r}; topics are for subscribe() and send()"
        )
    given: dict[str, Any] = {}
    for source in (config or {}, options):
        for spelling, value in source.items():
            if not isinstance(spelling, str):
                raise ConfigError(f"an option's name is text, not {spelling!r}")
            name = spelling.replace("_", ".")
            if name in given and given[name] != value:
                shown = "" if is_hidden(name) else f": {given[name]!r} and {value!r}"
                raise ConfigError(f"{name} is given twice{shown or ' with different values'}")
            given[name] = value
    given = translated(given)
    _check_whose(cls, given)
    _check_names(cls, given)
    by_name = {o.name: o for o in options_of(cls)}
    given = {name: by_name[name].as_spelled(value) if name in by_name else value for name, value in given.items()}
    if cls is ConsumerConfig:
        _check_group_protocol(given)
    return parse_config(cls, given)


def _check_names(cls: type[ClientConfig], given: Mapping[str, Any]) -> None:
    known = [o.name for o in options_of(cls)]
    prefixes = gathered_prefixes(cls)
    unknown = [name for name in given if name not in known and not name.startswith(prefixes)]
    if unknown:
        hints = [f"{name!r}{instead_of(name) or did_you_mean(name, known)}" for name in unknown]
        raise ConfigError(f"unknown option{'s' if len(unknown) > 1 else ''} {'; '.join(hints)}")


def _check_group_protocol(given: Mapping[str, Any]) -> None:
    """Raise ConfigError for an option of the other group protocol, with its replacement."""
    protocol = given.get("group.protocol", "classic")
    if protocol == "consumer":
        for name, instead in INSTEAD_OF_CLASSIC.items():
            if name in given:
                raise ConfigError(f"{name} has no meaning with group.protocol=consumer: {instead}")
    if protocol == "classic" and given.get("group.remote.assignor") is not None:
        raise ConfigError(
            "group.remote.assignor has no meaning with group.protocol=classic, where the members assign: "
            "set partition.assignment.strategy, or group.protocol=consumer"
        )


def _check_whose(cls: type[ClientConfig], given: Mapping[str, Any]) -> None:
    """Raise ConfigError for an option of another kind of client."""
    own = {o.name for o in options_of(cls)}
    for kind, other in (("consumer", ConsumerConfig), ("producer", ProducerConfig)):
        for option_ in options_of(other):
            if option_.name in given and option_.name not in own:
                raise ConfigError(f"{option_.name} is an option of a {kind}, which this client is not")


def check_servers(servers: list[str]) -> None:
    """Raise ConfigError unless there is at least one HOST:PORT, and no duplicate."""
    if not servers:
        raise ConfigError("bootstrap.servers is missing: expected HOST:PORT, or several with commas between")
    addresses = [parse_address(text) for text in servers]
    for address, text in zip(addresses, servers, strict=True):
        if addresses.count(address) > 1:
            raise ConfigError(f"bootstrap.servers names {text!r} twice")


def parse_address(text: str) -> tuple[str, int]:
    """Parse ``HOST:PORT`` or ``[IPV6]:PORT``. Raises ConfigError for anything else.

    A listener's protocol in front (``SSL://``) says nothing here, as in Java's clients: security.protocol decides.
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
        f"auto.offset.reset={text!r}: expected earliest, latest, none, or by_duration: and an ISO-8601 duration "
        "such as by_duration:PT1H30M"
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
