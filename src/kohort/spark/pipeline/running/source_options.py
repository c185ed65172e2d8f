"""The options of ``format("kohort")`` for the sources of a pipeline."""

from __future__ import annotations

from kohort.config.client import ConsumerConfig
from kohort.spark.options.client import SERVERS, as_spark_options, client_options
from kohort.spark.options.source import SourceOptions
from kohort.spark.pipeline.definition import Source
from kohort.spark.pipeline.pipeline_owner import PipelineOwner


def stream_options(source: Source, owner: PipelineOwner | None = None) -> dict[str, str]:
    """Return the options of a stream. ``owner``: the pipeline and checkpoint that its commits to the group name."""
    options = _options(source) | {"includeHeaders": "true"}
    if source.group and owner is not None:
        options["groupOwner"] = owner.text
    if source.member:
        options["group.mode"] = "member"
        if source.start != "group":
            options["groupFallback"] = source.start
    else:
        options["startingOffsets"] = source.start
    if source.max_rows:
        options["maxOffsetsPerTrigger"] = str(source.max_rows)
    if source.max_bytes:
        options["maxBytesPerTrigger"] = source.max_bytes
    return options


def table_options(source: Source) -> dict[str, str]:
    """Return the options of a source that is read whole."""
    return _options(source) | {"startingOffsets": "earliest", "includeHeaders": "true"}


def lookup_options(source: Source) -> SourceOptions:
    """Return what is needed to ask the brokers where a source stands, outside of Spark."""
    client = client_options(ConsumerConfig, {**dict(source.kafka), SERVERS: source.brokers})
    del client[SERVERS]
    return SourceOptions(source.brokers, client, group_id=source.group, subscribe=source.topics)


def _options(source: Source) -> dict[str, str]:
    options = {
        "kafka.bootstrap.servers": source.brokers,
        "subscribe": ",".join(source.topics),
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
    }
    options |= as_spark_options(source.kafka)
    return options | ({"group.id": source.group} if source.group else {})
