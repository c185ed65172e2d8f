"""Options that Kafka's clients have and that do nothing here: accepted and checked, so that a configuration can be
carried over as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kohort.config.client_security import ClientSecurityConfig
from kohort.config.options import ValueRule, option

NO_PUSH: Final = "a client pushes no metrics; call metrics()"
NO_REPORTERS: Final = "metrics() returns the metrics, kohort.MetricsCollector exports them to Prometheus"
ALL_LEVELS: Final = "all metrics are kept"
OF_THE_SYSTEM: Final = "the operating system sizes the buffers of sockets"
AT_ONCE: Final = "bootstrap addresses are asked as soon as no node that is known can be"
BY_THE_SYSTEM: Final = "the operating system resolves names, each time that it is connected"
LEVELS: Final = ValueRule(lambda level: level in ("INFO", "DEBUG", "TRACE"), "INFO, DEBUG or TRACE")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoEffectConfig(ClientSecurityConfig):
    """What every client of Kafka's can be told, beside what it does here."""

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
