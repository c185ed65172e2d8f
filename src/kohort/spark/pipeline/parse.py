"""Parses a pipeline file into a Pipeline. Needs neither brokers nor Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from kohort.config.client import AdminConfig, ConsumerConfig
from kohort.config.listeners import parse_listener
from kohort.errors import ConfigError
from kohort.spark.options.table import size_bytes
from kohort.spark.pipeline.check_whole import check_whole
from kohort.spark.pipeline.definition import AVAILABLE_NOW, DeadLetters, Pipeline, Source, Summary
from kohort.spark.pipeline.parse_decode import parse_decode
from kohort.spark.pipeline.parse_sources import KafkaCluster, cluster_of, connection_of, default_cluster
from kohort.spark.pipeline.parse_steps import TIME, parse_rule, parse_step, parse_test
from kohort.spark.pipeline.sections import YamlSection, parse_document
from kohort.spark.pipeline.sinks.registry import parse_sink

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_VIEW: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STARTER: Final = Path(__file__).with_name("starter.yaml")


def load_pipeline(path: Path, environ: Mapping[str, str] = os.environ) -> Pipeline:
    """Parse a pipeline file. Raises ConfigError for an invalid file, with the line of the mistake."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"pipeline file {path} cannot be read: {error}") from None
    return parse_pipeline(text, path, environ)


def parse_pipeline(text: str, path: Path, environ: Mapping[str, str]) -> Pipeline:
    """Parse the text of a pipeline file. Paths in the text are relative to the folder of ``path``."""
    return pipeline_of(parse_document(text, str(path), environ), path)


def pipeline_of(top: YamlSection, path: Path) -> Pipeline:
    version = top.take("version", int, 1)
    if version != 1:
        raise top.error(f"version {version} of the pipeline file is not supported: expected version: 1")
    name_line = top.line_of("name")
    name = top.take("name", str)
    if not _NAME.fullmatch(name):
        raise top.error(f"name: {name!r}: expected letters, digits, - and _, beginning with a letter or _", name_line)
    root = path.parent
    cluster = default_cluster(top)
    sources = _sources(top, cluster, root)
    if not cluster.brokers:
        cluster = replace(cluster, brokers=sources[0].brokers, kafka=cluster.kafka or connection_of(sources[0]))
    sinks = tuple(parse_sink(s, root, cluster) for s in top.sections("sinks"))
    pipeline = Pipeline(
        name=name,
        file=path,
        sources=sources,
        steps=tuple(parse_step(s, root) for s in top.sections("steps")),
        rules=tuple(parse_rule(s, i) for i, s in enumerate(top.sections("expect"))),
        sinks=sinks,
        summaries=tuple(_summary(s, root) for s in top.sections("summaries")),
        dead_letters=_dead_letters(top.section("dlq"), cluster),
        every=_trigger(top),
        checkpoint=root / top.take("checkpoint", str, "state"),
        metrics=_metrics(top.section("metrics")),
        mode=top.choice("mode", ("append", "update"), "append"),
        tests=tuple(parse_test(s, i, [x.name for x in sources]) for i, s in enumerate(top.sections("tests"))),
    )
    top.close()
    check_whole(pipeline, top)
    return pipeline


def _sources(top: YamlSection, cluster: KafkaCluster, root: Path) -> tuple[Source, ...]:
    if top.one_of("source", "sources") == "source":
        return (_source("input", top.take("source", YamlSection), cluster, top.section("decode"), root),)
    several = top.take("sources", YamlSection)
    if not several.names():
        raise top.error("sources is empty: give at least one source")
    found = []
    for name in several.names():
        if not _VIEW.fullmatch(name) or name == "input":
            raise top.error(
                f"source {name!r}: expected a name of letters, digits and _; the name input is reserved",
                several.line_of(name),
            )
        section = several.take(name, YamlSection)
        found.append(_source(name, section, cluster, section.section("decode"), root))
    return tuple(found)


def _source(name: str, section: YamlSection, cluster: KafkaCluster, decode: YamlSection | None, root: Path) -> Source:
    limit = section.section("limit")
    of = cluster_of(section, cluster, ConsumerConfig)
    start_line, member_line = section.line_of("start"), section.line_of("group_mode")
    group_line = section.line_of("group") if "group" in section else 0
    source = Source(
        name=name,
        brokers=of.brokers,
        topics=tuple(section.texts("topics")),
        group=section.take("group", str, ""),
        start=section.take("start", str, "earliest"),
        table=section.choice("read", ("stream", "table"), "stream") == "table",
        decode=parse_decode(decode, root),
        max_rows=limit.take("rows", int, None) if limit else None,
        max_bytes=str(limit.take("bytes", object, "")) if limit else "",
        fail_on_data_loss=section.take("fail_on_data_loss", bool, True),
        watermark=_watermark(section.section("watermark")),
        member=section.choice("group_mode", ("standalone", "member"), "standalone") == "member",
        member_line=member_line,
        line=section.line,
        kafka=of.kafka,
    )
    section.close()
    if limit:
        limit.close()
        _check_limit(limit, source)
    if not source.topics:
        raise section.error(f"{section.name}: topics is empty: expected one or more topic names")
    if group_line and not source.group.strip():
        raise section.error(f"group: {source.group!r} is blank: give a name, or remove group", group_line)
    if source.start not in ("earliest", "latest", "group"):
        raise section.error(f"start: {source.start!r}: expected earliest, latest or group", start_line)
    for wrong, problem, line in (
        (source.start == "group" and not source.group, "start: group needs a group", start_line),
        (source.table and source.watermark, f"{section.name}: a table is read whole: remove watermark", 0),
        (source.table and limit, "a table is read whole: remove limit", limit.line if limit else 0),
        (source.table and source.start != "earliest", "a table is read whole: start must be earliest", start_line),
        (source.member and source.table, "a table is read whole: group_mode must be standalone", member_line),
        (source.member and not source.group, "group_mode: member needs a group", member_line),
    ):
        if wrong:
            raise section.error(problem, line)
    return source


def _watermark(section: YamlSection | None) -> tuple[str, str] | None:
    if section is None:
        return None
    found = section.take("column", str), section.take("delay", str)
    section.close()
    if not TIME.fullmatch(found[1]):
        raise section.error(f"delay: {found[1]!r}: expected a duration such as 10 minutes")
    return found


def _check_limit(limit: YamlSection, source: Source) -> None:
    if source.max_rows is None and not source.max_bytes:
        raise limit.error("limit is empty: expected rows, bytes or both")
    if source.max_bytes:
        try:
            size_bytes("bytes", source.max_bytes)
        except ConfigError as error:
            raise limit.error(str(error)) from None


def _summary(section: YamlSection, root: Path) -> Summary:
    summary = Summary(
        name=section.take("name", str),
        sql=section.take("sql", str),
        path=root / section.take("path", str),
        counts=section.take("counts", str, ""),
        of=section.take("of", str, ""),
        line=section.line,
    )
    section.close()
    return summary


def _dead_letters(section: YamlSection | None, cluster: KafkaCluster) -> DeadLetters | None:
    if section is None:
        return None
    of = cluster_of(section, cluster, AdminConfig)
    letters = DeadLetters(of.brokers, section.take("topic", str), section.take("partitions", int, 1), of.kafka)
    section.close()
    return letters


def _metrics(section: YamlSection | None) -> str:
    if section is None:
        return ""
    line, address = section.line_of("http"), section.take("http", str)
    section.close()
    try:
        parse_listener(address, "http")
    except ConfigError as error:
        raise section.error(str(error), line) from None
    return address


def _trigger(top: YamlSection) -> str:
    line = top.line_of("trigger")
    if not top.holds_section("trigger"):
        if top.take("trigger", str, AVAILABLE_NOW) != AVAILABLE_NOW:
            raise top.error(f"trigger: expected {AVAILABLE_NOW} or {{every: 2 seconds}}", line)
        return AVAILABLE_NOW
    body = top.take("trigger", YamlSection)
    every = body.take("every", str)
    body.close()
    if not TIME.fullmatch(every):
        raise top.error(f"trigger: every: {every!r}: expected a duration such as 2 seconds", line)
    return every


def starter(name: str, topic: str) -> str:
    return _STARTER.read_text(encoding="utf-8").replace("@NAME@", name).replace("@TOPIC@", topic)
