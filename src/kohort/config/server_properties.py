"""Kafka's ``server.properties``, read as far as it means anything here.

What a broker without replicas, TLS or a controller has no use for is known and passed over, with a
warning; a name that Kafka does not know either is an error, as a typo should be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kohort.config.broker import BrokerConfig
from kohort.config.listeners import parse_listener
from kohort.config.options import options_of, unknown_option
from kohort.errors import ConfigError

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000

IGNORED: Final = frozenset(
    """
    process.roles controller.quorum.voters controller.quorum.bootstrap.servers controller.listener.names
    controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms
    controller.quorum.request.timeout.ms inter.broker.listener.name inter.broker.protocol.version
    listener.security.protocol.map security.inter.broker.protocol early.start.listeners
    broker.heartbeat.interval.ms broker.session.timeout.ms initial.broker.registration.timeout.ms
    num.network.threads num.io.threads background.threads queued.max.requests
    num.recovery.threads.per.data.dir num.replica.fetchers num.replica.alter.log.dirs.threads
    socket.send.buffer.bytes socket.receive.buffer.bytes socket.listen.backlog.size
    connection.failed.authentication.delay.ms max.connection.creation.rate
    offsets.topic.compression.codec offsets.load.buffer.size
    transaction.state.log.min.isr transaction.partition.verification.enable
    share.coordinator.state.topic.replication.factor share.coordinator.state.topic.min.isr
    share.coordinator.state.topic.num.partitions group.coordinator.new.enable
    group.coordinator.rebalance.protocols group.coordinator.threads group.coordinator.append.linger.ms
    group.consumer.session.timeout.ms group.consumer.heartbeat.interval.ms group.consumer.max.size
    group.consumer.assignors group.consumer.migration.policy
    auto.leader.rebalance.enable leader.imbalance.check.interval.seconds
    leader.imbalance.per.broker.percentage controlled.shutdown.enable controlled.shutdown.max.retries
    replica.lag.time.max.ms replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.wait.max.ms
    replica.fetch.response.max.bytes replica.fetch.backoff.ms replica.socket.timeout.ms
    replica.socket.receive.buffer.bytes replica.high.watermark.checkpoint.interval.ms replica.selector.class
    log.cleaner.threads log.cleaner.io.buffer.size log.cleaner.io.buffer.load.factor
    log.cleaner.io.max.bytes.per.second
    log.flush.scheduler.interval.ms log.flush.offset.checkpoint.interval.ms
    log.flush.start.offset.checkpoint.interval.ms
    log.message.format.version log.message.downconversion.enable log.roll.jitter.hours
    log.dir.failure.timeout.ms metadata.log.dir metadata.log.segment.bytes metadata.max.retention.bytes
    metadata.max.retention.ms metadata.log.max.record.bytes.between.snapshots metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms auto.include.jmx.reporter
    client.telemetry.max.bytes zookeeper.connect zookeeper.connection.timeout.ms zookeeper.session.timeout.ms
    broker.id.generation.enable reserved.broker.max.id request.timeout.ms
    producer.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests
    delete.records.purgatory.purge.interval.requests producer.id.expiration.check.interval.ms quota.window.num
    quota.window.size.seconds
    unstable.api.versions.enable unstable.feature.versions.enable confluent.support.metrics.enable
    """.split()  # noqa: SIM905 - a hundred words read better unquoted
)
"""Options of Kafka's that have no meaning here."""

REFUSED_PREFIXES: Final = ("ssl.", "sasl.", "authorizer.", "super.users", "listener.name.", "principal.builder.")
"""Security that was asked for and would not be there is an error, not a warning."""
IGNORED_PREFIXES: Final = ("remote.log.", "controller.", "share.", "group.share.", "group.streams.", "telemetry.")


@dataclass(slots=True)
class ServerProperties:
    """What a file says: options for BrokerConfig, the data folder, and what was passed over."""

    options: dict[str, str] = field(default_factory=dict)
    data_dir: str | None = None
    ignored: list[str] = field(default_factory=list)


def understand(given: Mapping[str, str]) -> ServerProperties:
    """Kafka's options in our terms. Raises ConfigError for an unknown name, and for security that is not served."""
    found = ServerProperties()
    ours = {option.name: option for option in options_of(BrokerConfig)}
    for name, value in given.items():
        if name in ours:
            found.options[name] = value
            if ours[name].no_effect:
                found.ignored.append(name)
        elif name == "broker.id":
            found.options.setdefault("node.id", value)
        elif name == "listeners":
            host, port = _one_listener(value)
            found.options |= {"host.name": host, "port": str(port)}
        elif name in {"log.dirs", "log.dir"}:
            found.data_dir = _one_folder(name, value)
        elif name in {"log.retention.hours", "log.retention.minutes", "log.roll.hours"}:
            continue  # below: they give way to the same in milliseconds
        elif name in IGNORED or name.startswith(IGNORED_PREFIXES):
            found.ignored.append(name)
        elif name.startswith(REFUSED_PREFIXES):
            raise ConfigError(f"{name}: kohort serves plaintext without authentication; remove the option")
        else:
            raise unknown_option(name, ours.keys() | IGNORED | {"listeners", "log.dirs"})
    _add_milliseconds(
        found, given, "log.retention.ms", {"log.retention.minutes": MINUTE_MS, "log.retention.hours": HOUR_MS}
    )
    _add_milliseconds(found, given, "log.roll.ms", {"log.roll.hours": HOUR_MS})
    return found


def _one_listener(value: str) -> tuple[str, int]:
    """Return the listener to serve; a controller's beside it, as in a combined Kafka node, is passed over."""
    listeners = [one.strip() for one in value.split(",") if not one.strip().upper().startswith("CONTROLLER://")]
    if len(listeners) != 1:
        raise ConfigError(f"listeners={value!r}: expected one PLAINTEXT://HOST:PORT")
    return parse_listener(listeners[0], "listeners")


def _one_folder(name: str, value: str) -> str:
    if "," in value or not value:
        raise ConfigError(f"{name}={value!r}: expected one folder")
    return value


def _add_milliseconds(found: ServerProperties, given: Mapping[str, str], name: str, coarser: Mapping[str, int]) -> None:
    """Kafka's order: milliseconds win over minutes, minutes over hours; -1 stays -1."""
    for other, factor in coarser.items():
        if other in given and name not in found.options:
            try:
                amount = int(given[other])
            except ValueError:
                raise ConfigError(f"{other}={given[other]!r}: expected a whole number") from None
            found.options[name] = str(amount if amount < 0 else amount * factor)
