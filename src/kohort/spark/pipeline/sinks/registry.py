"""Kinds of pipeline sinks. To add a kind, add a module with its class to this folder, and an entry to ``KINDS``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from kohort.spark.pipeline.definition import Pipeline, Sink
from kohort.spark.pipeline.parse_sources import KafkaCluster
from kohort.spark.pipeline.sections import YamlSection
from kohort.spark.pipeline.sinks.console import ConsoleSink, NoopSink
from kohort.spark.pipeline.sinks.folder_claim import claim_summary
from kohort.spark.pipeline.sinks.latest import LatestSink
from kohort.spark.pipeline.sinks.parquet import ParquetSink
from kohort.spark.pipeline.sinks.topic import TopicSink, ensure_topic


class SinkKind(Protocol):
    kind: str
    has_keys: bool

    def parse(self, body: YamlSection, root: Path, cluster: KafkaCluster, common: Sink, /) -> Sink: ...


KINDS: Final[dict[str, SinkKind]] = {
    kind.kind: kind for kind in (ParquetSink, LatestSink, TopicSink, ConsoleSink, NoopSink)
}


def parse_sink(section: YamlSection, root: Path, cluster: KafkaCluster) -> Sink:
    kind = section.one_of(*KINDS)
    line = section.line_of(kind)
    common = Sink(name=section.take("name", str, kind), counts=section.take("counts", str, ""))
    if KINDS[kind].has_keys:
        body = section.take(kind, YamlSection)
    else:
        section.take(kind, object)
        body = YamlSection(section.file, line, kind, {})
    section.close()
    body.note_parent_keys("name", "counts")
    sink = KINDS[kind].parse(body, root, cluster, common)
    body.close()
    return replace(sink, line=section.line)


def prepare_sinks(pipeline: Pipeline) -> None:
    """Claim the output folders of a pipeline, then create its topics.

    Raises SinkRefused for a folder of another pipeline.
    """
    for sink in pipeline.sinks:
        if sink.folder:
            sink.prepare(pipeline)
    for summary in pipeline.summaries:
        claim_summary(pipeline, summary)
    for sink in pipeline.sinks:
        if not sink.folder:
            sink.prepare(pipeline)
    if pipeline.dead_letters:
        letters = pipeline.dead_letters
        ensure_topic(letters.client, letters.topic, letters.partitions)
