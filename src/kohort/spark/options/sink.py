"""The options of ``format("kohort")`` as a sink: the Kafka connector's names, and which headers are added."""

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
    SparkOption("profile", "profile", "", "a cluster of the driver's clusters.toml; kafka.* wins over it", text),
    SparkOption("topic", "topic", "", "the topic of every row; wins over the column topic", text),
    SparkOption("includeHeaders", "include_headers", "true", "send the column headers, where there is one", flag),
    SparkOption(
        "deliveryHeaders",
        "delivery_headers",
        "true for a stream",
        "add headers that name query, micro-batch, task and row, by which a reader can remove what was sent twice",
        flag,
    ),
)

SINK_REFUSED: Final = {
    "kafka.key.serializer": "keys are text or binary: cast them, or make them JSON, with DataFrame operations",
    "kafka.value.serializer": "values are text or binary: cast them, or make them JSON, with DataFrame operations",
    "kafka.interceptor.classes": "interceptors could change records that the sink counts on",
    "kafka.transactional.id": "the sink is at least once; see deliveryHeaders",
}
_BY_LOWER_NAME: Final = {o.name.lower(): o for o in SINK_TABLE}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where rows go, checked. ``client``: the producer's own options, by Kafka's names."""

    client: dict[str, Any] = field(default_factory=dict)
    topic: str = ""
    include_headers: bool = True
    delivery_headers: bool = True


def parse_sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Check what ``.option(...)`` gave. Raises ConfigError naming the option and what is allowed."""
    values: dict[str, Any] = {"delivery_headers": streaming}
    client: dict[str, Any] = {}
    for name, content in given.items():
        lower = name.lower()
        if lower in SINK_REFUSED:
            raise ConfigError(f"option {lower!r} is refused: {SINK_REFUSED[lower]}")
        known = _BY_LOWER_NAME.get(lower)
        if known is not None:
            values[known.attribute] = known.parse(known.name, str(content))
        elif lower.startswith("kafka."):
            client[lower.removeprefix("kafka.")] = str(content)
        elif lower not in ("path", "checkpointlocation", "queryname"):  # Spark's own
            raise unknown_option(name, [o.name for o in SINK_TABLE] + ["kafka.bootstrap.servers"])
    client = client_options(ProducerConfig, client, values.pop("profile", ""))
    client.setdefault("client.id", "kohort-spark")
    return SinkOptions(client, **values)
