"""Parses the source sections of a pipeline file, and the brokers and client options of each section.

``profile``, ``brokers`` and ``kafka`` at the top of the file apply to all sources, sinks and dead letters. A section
with other brokers needs its own credentials: top-level credentials are never sent to other brokers. Spark schemas
(``id long, place struct<x: int>``) are checked without Spark.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Final

from kohort.config.client import AdminConfig, ConsumerConfig, parse_address
from kohort.config.client_files import read_profile
from kohort.config.security_names import is_hidden, translated
from kohort.errors import ConfigError
from kohort.nearest import did_you_mean
from kohort.secret import Secret
from kohort.spark.options.client import SERVERS, as_spark_options, client_options, connecting
from kohort.spark.options.source import parse_source_options
from kohort.spark.pipeline.definition import ClientSettings, Source
from kohort.spark.pipeline.sections import YamlSection

_TYPES: Final = """
boolean tinyint byte smallint short int integer bigint long float real double decimal dec numeric date time timestamp
timestamp_ntz timestamp_ltz string char character varchar binary void interval array map struct variant geometry
geography
"""
_AFTER_A_TYPE: Final = "not null comment default collate to year month day hour minute second"
_TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\w.]+|\S)")


class SchemaProblem(ValueError):
    pass


def parse_schema(text: str) -> list[str]:
    """Return the column names of a Spark schema. Raises SchemaProblem for an invalid schema.

    The parser skips NOT NULL, COMMENT, DEFAULT and COLLATE after a type.
    """
    reader = _SchemaParser([match[1] for match in _TOKEN.finditer(text.strip())])
    columns = reader.columns(end="")
    first: dict[str, str] = {}
    for name in columns:
        other = first.get(name.lower())
        if other is not None:
            if name == other:
                raise SchemaProblem(f"two columns have the name {name!r}")
            raise SchemaProblem(f"columns {other!r} and {name!r} differ only in case, which SQL ignores")
        first[name.lower()] = name
    return columns


class _SchemaParser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def columns(self, end: str) -> list[str]:
        found: list[str] = []
        if end and self._peek() == end:
            self._next()
            return []
        while True:
            name = self._next()
            if not name:
                raise SchemaProblem("a column is missing at the end" if found else "the schema is empty")
            if self._peek() == ":":
                self._next()
            if self._peek() in (",", end):
                raise SchemaProblem(f"the column {name!r} has no type")
            found.append(name[1:-1].replace("``", "`") if name.startswith("`") else name)
            self._type()
            self._skip_attributes(end)
            token = self._next()
            if token == end:
                return found
            if token != ",":
                raise SchemaProblem(f"expected a comma or the end of the schema, found {token!r}")

    def _type(self) -> None:
        word = self._next()
        kind = word.lower()
        if kind not in _TYPES.split():
            raise SchemaProblem(f"{word!r} is not a Spark type{did_you_mean(kind, _TYPES.split())}")
        if kind == "struct" and self._peek() == "<":
            self._next()
            self.columns(end=">")
        elif kind in ("array", "map"):
            self._expect("<", word)
            self._type()
            self._skip_attributes(">")
            if kind == "map":
                self._expect(",", word)
                self._type()
                self._skip_attributes(">")
            self._expect(">", word)
        elif self._peek() == "(":
            while self._peek() and self._next() != ")":
                pass

    def _expect(self, token: str, of: str) -> None:
        if self._next() != token:
            raise SchemaProblem(f"{of} needs element types, such as array<string> or map<string, long>")

    def _skip_attributes(self, end: str) -> None:
        while self._peek() and self._peek() not in (",", end):
            word = self._next()
            if word.lower() in _AFTER_A_TYPE.split() or word.startswith(("'", '"')):
                continue
            if self._tokens[self._at - 2].lower() not in ("collate", "default"):
                raise SchemaProblem(f"expected a comma or the end of the schema, found {word!r}")


PLACEHOLDER_BROKERS: Final = "localhost:9092"
SOURCE_KEYS: Final = {"bootstrap.servers": "brokers", "group.id": "group", "auto.offset.reset": "start"}


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    brokers: str
    kafka: ClientSettings = ()


def default_cluster(top: YamlSection) -> KafkaCluster:
    """Return the top-level brokers and client options of a pipeline file.

    If these settings name no brokers, ``brokers`` is "".
    """
    line, name = top.line_of("profile"), top.take("profile", str, "")
    by_profile: dict[str, Any] = {}
    if name:
        try:
            by_profile = translated(read_profile(name, os.environ).options)
        except ConfigError as error:
            raise top.error(str(error), line) from None
    servers = by_profile.pop(SERVERS, "")
    brokers = top.take("brokers", str, ",".join(servers) if isinstance(servers, list) else str(servers))
    settings = _settings(top, AdminConfig)
    return KafkaCluster(brokers, tuple({**connecting(by_profile), **dict(settings)}.items()))


def cluster_of(section: YamlSection, default: KafkaCluster, config: type[Any]) -> KafkaCluster:
    """Return the brokers and client options of one section of the pipeline file.

    Top-level client options apply only if the section has the same brokers. Options in the section override them.
    """
    line = section.line_of("brokers")
    brokers = section.take("brokers", str, default.brokers)
    if not brokers:
        raise section.error(f"{section.name} needs 'brokers', in this section or at the top of the file")
    try:
        for address in brokers.split(","):
            parse_address(address)
    except ConfigError:
        raise section.error(f"brokers: {brokers!r}: expected HOST:PORT, or several separated by commas", line) from None
    settings = _settings(section, config)
    inherited = default.kafka if brokers == default.brokers or not default.brokers else ()
    own = translated(dict(settings)) if inherited else {}
    return KafkaCluster(brokers, (*((name, value) for name, value in inherited if name not in own), *settings))


def connection_of(source: Source) -> ClientSettings:
    """Return the connection settings of a source. Sinks use these settings if the file has no top-level brokers."""
    return tuple(connecting(translated(dict(source.kafka))).items())


def _settings(section: YamlSection, config: type[Any]) -> ClientSettings:
    kafka = section.section("kafka")
    if kafka is None:
        return ()
    found: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for name in kafka.names():
        line, value = kafka.line_of(name), kafka.take(name, object)
        if name in SOURCE_KEYS and (name == SERVERS or config is ConsumerConfig):
            raise kafka.error(
                f"kafka: {name}: remove this option, and set {SOURCE_KEYS[name]} in the section that has kafka", line
            )
        if isinstance(value, YamlSection | list) or value is None:
            raise kafka.error(f"kafka: {name}: expected text, a number, true or false", line)
        found[name], lines[name] = _hidden(name, value), line
    try:
        if config is ConsumerConfig:
            given = as_spark_options(found.items())
            parse_source_options({f"kafka.{SERVERS}": PLACEHOLDER_BROKERS, "subscribe": "any", **given}, streaming=True)
        else:
            client_options(config, {**found, SERVERS: PLACEHOLDER_BROKERS})
    except ConfigError as error:
        problem = str(error)
        first = min((name for name in lines if name in problem), key=problem.index, default="")
        raise kafka.error(problem, lines.get(first, kafka.line)) from None
    return tuple(found.items())


def _hidden(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Secret):
        return value
    return Secret(str(value)) if is_hidden(name) else str(value)
