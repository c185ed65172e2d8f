"""The options of ``format("kohort")`` for the sources of a pipeline."""

from __future__ import annotations

from kohort.spark.pipeline.definition import Source


def stream_options(source: Source) -> dict[str, str]:
    """The options of a stream."""
    options = _options(source)
    options["startingOffsets"] = source.start
    options["includeHeaders"] = "true"
    if source.max_rows:
        options["maxOffsetsPerTrigger"] = str(source.max_rows)
    if source.max_bytes:
        options["maxBytesPerTrigger"] = source.max_bytes
    return options


def table_options(source: Source) -> dict[str, str]:
    """The options of a source that is read whole."""
    return _options(source) | {"startingOffsets": "earliest", "includeHeaders": "true"}


def _options(source: Source) -> dict[str, str]:
    options = {
        "kafka.bootstrap.servers": source.brokers,
        "subscribe": ",".join(source.topics),
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
    }
    return options | ({"group.id": source.group} if source.group else {})
