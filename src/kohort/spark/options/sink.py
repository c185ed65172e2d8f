"""Options of ``format("kohort")`` as a sink: the Kafka connector's names, and options for headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.config.client import ProducerConfig
from kohort.config.options import unknown_option
from kohort.errors import ConfigError
from kohort.spark.options.client import client_options
from kohort.spark.options.table import SparkOption, flag, text

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
    """Checked options of the sink. ``client``: options of the producer, by Kafka's names."""

    client: dict[str, Any] = field(default_factory=dict)
    topic: str = ""
    include_headers: bool = True
    delivery_headers: bool = True


def parse_sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Check the options of a write. Raises ConfigError with the option and the allowed values."""
    values: dict[str, Any] = {"delivery_headers": streaming}
    client: dict[str, Any] = {}
    for name, content in given.items():
        lower = name.lower()
        if lower in SINK_REFUSED:
            raise ConfigError(f"option {lower!r} is refused: {SINK_REFUSED[lower]}")
        known = _BY_LOWER_NAME.get(lower)
        if known is not None:
            values[known.field] = known.parse(known.name, str(content))
        elif lower.startswith("kafka."):
            client[lower.removeprefix("kafka.")] = str(content)
        elif lower not in ("path", "checkpointlocation", "queryname"):  # Spark's own
            raise unknown_option(name, [o.name for o in SINK_TABLE] + ["kafka.bootstrap.servers"])
    client = client_options(ProducerConfig, client, values.pop("profile", ""))
    client.setdefault("client.id", "kohort-spark")
    return SinkOptions(client, **values)
