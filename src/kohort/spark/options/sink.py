"""Options of ``format("kohort")`` as a sink: the options of Spark's Kafka connector, and options for headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.config.client import ProducerConfig
from kohort.spark.options.client import client_options
from kohort.spark.options.table import SparkOption, flag, parse_values, text

SINK_TABLE: Final = (
    SparkOption("profile", "", "a cluster of the driver's clusters.toml; kafka.* options win over it", text),
    SparkOption("topic", "", "topic of all rows; wins over the column topic", text),
    SparkOption("includeHeaders", "true", "send the column headers, if present", flag),
    SparkOption(
        "deliveryHeaders",
        "true for a stream",
        "add headers with the query, micro-batch, task and row number, by which readers can remove duplicates",
        flag,
    ),
)

SINK_REFUSED: Final = {
    "kafka.key.serializer": "keys are text or binary: cast them, or make them JSON, with DataFrame operations",
    "kafka.value.serializer": "values are text or binary: cast them, or make them JSON, with DataFrame operations",
    "kafka.interceptor.classes": "interceptors could change records, and the sink relies on them",
    "kafka.transactional.id": "the sink is at least once; see deliveryHeaders",
}
_BY_LOWER_NAME: Final = {o.name.lower(): o for o in SINK_TABLE}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Checked options of the sink. ``client`` contains producer options under Kafka's names."""

    client: dict[str, Any] = field(default_factory=dict)
    topic: str = ""
    include_headers: bool = True
    delivery_headers: bool = True


def parse_sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Check the options of a Spark write. Raises ConfigError for an unknown option or an invalid value."""
    values, client = parse_values(given, _BY_LOWER_NAME, SINK_REFUSED, ("path", "checkpointlocation", "queryname"))
    values.setdefault("delivery_headers", streaming)
    client = client_options(ProducerConfig, client, values.pop("profile", ""))
    client.setdefault("client.id", "kohort-spark")
    return SinkOptions(client, **values)
