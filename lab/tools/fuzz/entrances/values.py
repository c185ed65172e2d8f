"""Pipelines; schemas of records, and values of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import yaml

from fuzz.entrances.texts import TextEntrance, text_of
from fuzz.mutate import mutated
from fuzz.trees import changed, json_bytes
from kohort.errors import ConfigError, KohortError
from kohort.pattern import Pattern
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.pipeline.parse_sources import SchemaProblem, parse_schema
from kohort.spark.values.avro import AvroError, compile_schema

SMALL_PIPELINES = (
    b"""version: 1
name: orders
source: {brokers: "${BROKERS:-localhost:9092}", topics: [orders], group: orders, start: group, limit: {rows: 500}}
decode: {format: json, schema: "id long, amount double"}
steps: [{sql: select * from input where amount > 0, filters: true}]
expect: [{not_null: id, reason: no id}, {check: amount < 1e6, else: drop, name: sane}]
sinks: [{parquet: {path: out/orders, partition_by: [country]}, name: table}, {noop: }]
dlq: {topic: orders-dlq, partitions: 3}
trigger: {every: 2 seconds}
""",
    b"""version: 1
name: o
sources: [{name: a, topics: [x], group: g, decode: {format: json, schema: "id long"}}]
sinks: [{topic: {topic: good, key: id}}]
tests: [{given: [{value: {id: 1}, key: a}, {raw: x}, {value: null}], expect: {rows: [{id: 1}], dropped: 1}}]
""",
)
PIPELINE = Path(__file__).parents[4] / "src" / "kohort" / "demo" / "flight_delays.yaml"


class PipelineFiles(TextEntrance):
    """Pipelines, as YAML."""

    name = "pipeline-files"
    feeds = "pipelines: the YAML mutated as bytes, and as a tree"
    hang_ms = 500.0  # libraries in Python parse YAML and SQL, once per pipeline

    def good(self) -> Sequence[bytes]:
        return [*SMALL_PIPELINES, PIPELINE.read_bytes()]

    @cached_property
    def trees(self) -> list[Any]:
        return [yaml.safe_load(seed) for seed in self.seeds]

    def generate(self, rng: random.Random) -> bytes:
        at = 2 if rng.random() < 0.05 else rng.randrange(2)  # the demo's pipeline costs twenty times as much
        if rng.random() < 0.3:
            return mutated(self.seeds[at], rng, self.seeds)
        tree = changed(self.trees[at], rng)
        if rng.random() < 0.8:
            return json_bytes(tree)  # JSON is YAML, and is encoded faster
        try:
            return yaml.safe_dump(tree, sort_keys=False).encode("utf-8", "surrogatepass")
        except (UnicodeError, yaml.YAMLError, ValueError):
            return json_bytes(tree)

    def read(self, data: bytes) -> None:
        parse_pipeline(text_of(data), PIPELINE, {})


class Schemas(TextEntrance):
    """Schemas with values, and patterns."""

    name = "schemas"
    feeds = "Avro schemas and values of them, Spark's schemas, patterns of topic and group names"
    refusals = (ConfigError, AvroError, SchemaProblem, KohortError)
    AVRO: ClassVar[list[Any]] = [
        {"type": "record", "name": "a", "fields": [
            {"name": "x", "type": ["null", "long"]}, {"name": "y", "type": {"type": "array", "items": "string"}},
            {"name": "z", "type": {"type": "map", "values": {"type": "fixed", "name": "f", "size": 4}}}]},
        {"type": "record", "name": "l", "fields": [
            {"name": "v", "type": "int"}, {"name": "next", "type": ["null", "l"]}]},
        {"type": "record", "name": "d", "fields": [
            {"name": "p", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}}]},
    ]  # fmt: skip
    VALUES: ClassVar[list[bytes]] = [
        b"",
        b"\x02\x06\x00",
        b"\x02\x02\x02\x04a\x00\x00",
        b"\x02\x02\x04\x02\x06\x00",
        b"\x04\x01\x02\x08\x02",
    ]

    def good(self) -> Sequence[bytes]:
        texts = [
            b"sid long, place struct<x: int, y: array<string>>",
            b"sa decimal(10, 2) NOT NULL COMMENT 'x', `b c` map<string, date>",
        ]
        patterns = [b"pa.*|b[0-9]{2,4}(c|d)+$", b"p^(?i)topic-\\d+\\.v1$"]
        return [
            *(b"a" + json_bytes(schema) + b"\n" + value for schema in self.AVRO for value in self.VALUES),
            *texts,
            *patterns,
        ]

    def generate(self, rng: random.Random) -> bytes:
        if rng.random() < 0.6:
            schema = json_bytes(changed(rng.choice(self.AVRO), rng) if rng.random() < 0.7 else rng.choice(self.AVRO))
            return b"a" + schema + b"\n" + mutated(rng.choice(self.VALUES), rng, self.VALUES)
        own = rng.choice(self.seeds)
        return own[:1] + mutated(own[1:], rng, self.seeds)

    def read(self, data: bytes) -> None:
        match data[:1]:
            case b"a":
                schema, _, value = data[1:].partition(b"\n")
                compile_schema(text_of(schema))(value)
            case b"s":
                parse_schema(text_of(data[1:]))
            case _:
                Pattern(text_of(data[1:])).fullmatch("topic-1.v1")
