"""Where the topics of a pipeline are, and how its clients get in: ``profile``, ``brokers`` and ``kafka``.

At the top they are for all sources, sinks and dead letters. A section that names other brokers than the top says how to
get in there itself: passwords do not go where they were not meant for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from kohort.config.client import AdminConfig, ConsumerConfig, parse_address
from kohort.config.client_files import read_profile
from kohort.config.security_names import is_hidden, translated
from kohort.errors import ConfigError
from kohort.secret import Secret
from kohort.spark.options.client import SERVERS, as_spark_options, client_options, connecting
from kohort.spark.options.source import parse_source_options
from kohort.spark.pipeline.definition import ClientSettings, Source
from kohort.spark.pipeline.document.sections import PipelineError, YamlSection

ANYWHERE: Final = "localhost:9092"
SAID_ELSEWHERE: Final = {"bootstrap.servers": "brokers", "group.id": "group", "auto.offset.reset": "start"}
"""Settings of the client that a source has keys of its own for."""


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """Brokers, and the settings of clients for them."""

    brokers: str
    kafka: ClientSettings = ()


def default_cluster(top: YamlSection) -> KafkaCluster:
    """Return what the top of a file says for all of it; no brokers where it names none."""
    line, name = top.line_of("profile"), top.take("profile", str, "")
    by_profile: dict[str, Any] = {}
    if name:
        try:
            by_profile = translated(read_profile(name, os.environ).options)
        except ConfigError as error:
            raise PipelineError(top.file, line, str(error)) from None
    servers = by_profile.pop(SERVERS, "")
    brokers = top.take("brokers", str, ",".join(servers) if isinstance(servers, list) else str(servers))
    said = _settings(top, AdminConfig)
    return KafkaCluster(brokers, tuple({**connecting(by_profile), **dict(said)}.items()))


def cluster_of(section: YamlSection, default: KafkaCluster, config: type[Any]) -> KafkaCluster:
    """Return where a section's topics are: what it says itself, over what the top says of the same brokers."""
    line = section.line_of("brokers")
    brokers = section.take("brokers", str, default.brokers)
    if not brokers:
        raise section.error(f"{section.name} needs 'brokers', here or at the top of the file")
    try:
        for address in brokers.split(","):
            parse_address(address)
    except ConfigError:
        raise PipelineError(
            section.file, line, f"brokers: {brokers!r}: expected HOST:PORT, or several with commas"
        ) from None
    said = _settings(section, config)
    same = not default.brokers or brokers == default.brokers
    inherited = default.kafka if same else ()
    return KafkaCluster(brokers, _merged(inherited, said))


def connection_of(source: Source) -> ClientSettings:
    """Return how the clients of a source get in, for sinks of a file that names no brokers at its top."""
    return tuple(connecting(translated(dict(source.kafka))).items())


def _merged(below: ClientSettings, above: ClientSettings) -> ClientSettings:
    if not below:
        return above
    said = translated(dict(above))
    return (*((name, value) for name, value in below if name not in said), *above)


def _settings(section: YamlSection, config: type[Any]) -> ClientSettings:
    """Read the section ``kafka``, Kafka's own settings; they are checked together, which needs neither brokers nor
    Spark."""
    kafka = section.section("kafka")
    if kafka is None:
        return ()
    found: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for name in kafka.names():
        line, value = kafka.line_of(name), kafka.take(name, object)
        if name in SAID_ELSEWHERE and (name == SERVERS or config is ConsumerConfig):
            raise PipelineError(kafka.file, line, f"{name}: say it with the source's {SAID_ELSEWHERE[name]}")
        if isinstance(value, YamlSection | list) or value is None:
            raise PipelineError(kafka.file, line, f"{name}: expected text, a number, or true or false")
        found[name], lines[name] = _hidden(name, value), line
    try:
        _check(config, found)
    except ConfigError as error:
        problem = str(error)
        raise PipelineError(kafka.file, _line_of(problem, lines, kafka.line), problem) from None
    return tuple(found.items())


def _check(config: type[Any], found: dict[str, Any]) -> None:
    """Raise ConfigError for what a client of this kind does not take."""
    if config is ConsumerConfig:
        given = as_spark_options(found.items())
        parse_source_options({f"kafka.{SERVERS}": ANYWHERE, "subscribe": "any", **given}, streaming=True)
    else:
        client_options(config, {**found, SERVERS: ANYWHERE})


def _hidden(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Secret):
        return value
    return Secret(str(value)) if is_hidden(name) else str(value)


def _line_of(problem: str, lines: dict[str, int], otherwise: int) -> int:
    """Return the line of the setting that a problem names first."""
    named: Iterable[str] = (name for name in lines if name in problem)
    return lines.get(min(named, key=problem.index, default=""), otherwise)
