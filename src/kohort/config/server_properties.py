"""Translation of Kafka's ``server.properties`` to the broker's options.

Options of replicas and controllers are ignored with a warning; a name unknown to Kafka is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.config.broker import BrokerConfig
from kohort.config.listener_overrides import IGNORED_OF_LISTENERS, PREFIX, split_name
from kohort.config.listeners import DEFAULT_LISTENER, parse_endpoint
from kohort.config.options import options_of, unknown_option
from kohort.errors import ConfigError
from kohort.secret import Secret

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000
COARSER: Final = frozenset({"log.retention.hours", "log.retention.minutes", "log.roll.hours"})
"""Options that the same option in milliseconds overrides."""

IGNORED: Final = frozenset(
    """
    process.roles controller.quorum.voters controller.quorum.bootstrap.servers controller.listener.names
    controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms
    controller.quorum.request.timeout.ms inter.broker.protocol.version early.start.listeners
    broker.heartbeat.interval.ms broker.session.timeout.ms initial.broker.registration.timeout.ms
    num.network.threads num.io.threads background.threads queued.max.requests
    num.recovery.threads.per.data.dir num.replica.fetchers num.replica.alter.log.dirs.threads
    socket.send.buffer.bytes socket.receive.buffer.bytes socket.listen.backlog.size
    offsets.topic.compression.codec offsets.load.buffer.size
    transaction.state.log.min.isr transaction.partition.verification.enable
    share.coordinator.state.topic.replication.factor share.coordinator.state.topic.min.isr
    share.coordinator.state.topic.num.partitions group.coordinator.new.enable
    group.coordinator.threads group.coordinator.append.linger.ms group.coordinator.background.threads
    group.coordinator.cached.buffer.max.bytes group.consumer.assignor.offload.enable
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
    delete.records.purgatory.purge.interval.requests producer.id.expiration.check.interval.ms
    delegation.token.expiry.time.ms delegation.token.expiry.check.interval.ms delegation.token.max.lifetime.ms
    unstable.api.versions.enable unstable.feature.versions.enable confluent.support.metrics.enable
    """.split()  # noqa: SIM905 - a hundred words read better unquoted
).union(IGNORED_OF_LISTENERS)
IGNORED_PREFIXES: Final = ("remote.log.", "controller.", "share.", "group.share.", "group.streams.", "telemetry.")
CONTROLLER: Final = "CONTROLLER"

BETWEEN_BROKERS: Final = frozenset({"inter.broker.listener.name", "security.inter.broker.protocol"})

_TOKENS: Final = "delegation tokens are not served"
_OWN_CLASS: Final = "classes of Java cannot be loaded here"
NOT_SERVED: Final[Mapping[str, str]] = {
    "delegation.token.master.key": _TOKENS,
    "delegation.token.secret.key": _TOKENS,
    "principal.builder.class": _OWN_CLASS,
    "client.quota.callback.class": _OWN_CLASS,
    "ssl.engine.factory.class": _OWN_CLASS,
    "security.providers": _OWN_CLASS,
}
"""Unsupported security options: errors, unless the value is the default behaviour."""
KAFKAS_OWN: Final = frozenset({"DefaultKafkaPrincipalBuilder", "DefaultSslEngineFactory", ""})
"""Simple class names with the default behaviour."""


@dataclass(slots=True)
class ServerProperties:
    options: dict[str, Any] = field(default_factory=dict)
    data_dir: str | None = None
    ignored: list[str] = field(default_factory=list)


def understand(given: Mapping[str, Any]) -> ServerProperties:
    """Translate Kafka's broker options. Raises ConfigError for unknown names and unsupported security."""
    found = ServerProperties()
    ours = {option.name: option for option in options_of(BrokerConfig)}
    named = str(given.get("controller.listener.names", "")).split(",")
    controllers = frozenset({CONTROLLER, *(name.strip().upper() for name in named)})
    if given.keys() >= BETWEEN_BROKERS:
        raise ConfigError(f"{' and '.join(sorted(BETWEEN_BROKERS))} exclude each other")
    for name, value in given.items():
        if name == "listeners":
            found.options |= _listeners(value, controllers)
        elif name == "advertised.listeners":
            found.options[name] = ",".join(_without(controllers, value))
        elif name in ours:
            found.options[name] = value
            if ours[name].no_effect:
                found.ignored.append(name)
        elif name.startswith(PREFIX):
            _add_override(found, name, value, controllers)
        elif name == "broker.id":
            found.options.setdefault("node.id", value)
        elif name in {"log.dirs", "log.dir"}:
            found.data_dir = _one_folder(name, value)
        elif name in COARSER:
            continue  # added at the end, because the same option in milliseconds overrides it
        elif name in IGNORED or name.startswith(IGNORED_PREFIXES) or _is_there_anyway(name, name, value):
            found.ignored.append(name)
        else:
            raise unknown_option(name, ours.keys() | IGNORED | {"log.dirs"})
    _add_milliseconds(
        found, given, "log.retention.ms", {"log.retention.minutes": MINUTE_MS, "log.retention.hours": HOUR_MS}
    )
    _add_milliseconds(found, given, "log.roll.ms", {"log.roll.hours": HOUR_MS})
    return found


def _without(controllers: frozenset[str], value: str) -> list[str]:
    """Return the listeners without those of the controller, which a combined Kafka node has, too."""
    listeners = [one.strip() for one in value.split(",") if one.strip()]
    return [one for one in listeners if one.upper().partition("://")[0] not in controllers or "://" not in one]


def _listeners(value: str, controllers: frozenset[str]) -> dict[str, Any]:
    """Return the listener options; one plaintext listener becomes host and port."""
    listeners = _without(controllers, value)
    if not listeners:
        raise ConfigError(f"listeners={value!r}: expected NAME://HOST:PORT, with commas between")
    name, host, port = parse_endpoint(listeners[0], "listeners")
    if len(listeners) == 1 and name in {"", DEFAULT_LISTENER}:
        return {"host.name": host, "port": str(port), "listeners": ""}
    return {"listeners": ",".join(listeners)}


def _add_override(found: ServerProperties, name: str, value: Any, controllers: frozenset[str]) -> None:
    listener, rest = split_name(name)
    if listener.upper() in controllers or rest in IGNORED_OF_LISTENERS or _is_there_anyway(name, rest, value):
        found.ignored.append(name)
    else:
        found.options[name] = value


def _is_there_anyway(name: str, rest: str, value: Any) -> bool:
    if rest not in NOT_SERVED:
        return False
    if str(value).rpartition(".")[2] not in KAFKAS_OWN:
        raise ConfigError(f"{name}: {NOT_SERVED[rest]}; remove the option")
    return True


def _one_folder(name: str, value: str) -> str:
    if "," in value or not value:
        raise ConfigError(f"{name}={value!r}: expected one folder")
    return value


def _add_milliseconds(found: ServerProperties, given: Mapping[str, Any], name: str, coarser: Mapping[str, int]) -> None:
    """Convert minutes and hours as Kafka does: milliseconds override minutes, which override hours; -1 stays -1."""
    for other, factor in coarser.items():
        if other in given and name not in found.options:
            try:
                amount = int(given[other])
            except ValueError:
                raise ConfigError(f"{other}={given[other]!r}: expected an integer") from None
            found.options[name] = str(amount if amount < 0 else amount * factor)


ADD_SCRAM: Final = "kohort.add.scram"
MECHANISMS: Final = "sasl.enabled.mechanisms"
JAAS: Final = "sasl.jaas.config"


def with_mechanisms(given: Mapping[str, Any]) -> dict[str, Any]:
    """Enable the SASL mechanisms of the first users, unless the options configure logins."""
    (added,) = (o for o in options_of(BrokerConfig) if o.name == ADD_SCRAM)
    users = given.get(added.name) or given.get(added.attribute)
    said = any(name.replace("_", ".").endswith((MECHANISMS, JAAS)) for name in given)
    if not users or said:
        return dict(given)
    named = {line.partition("=")[0].strip() for line in Secret(users).reveal().splitlines() if line.strip()}
    return {**given, MECHANISMS: sorted(named)}
