"""The names of options, before it is known whether Spark reads or writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.config.options import unknown_option
from kohort.spark.options.sink import SINK_TABLE
from kohort.spark.options.table import BY_LOWER_NAME, REFUSED, TABLE

_OF_SPARK: Final = ("path", "checkpointlocation", "queryname")


def check_names(given: Iterable[str]) -> None:
    """Raise ConfigError for an option that neither the source nor the sink has; Kafka's own are checked later."""
    known = {*BY_LOWER_NAME, *REFUSED, *(o.name.lower() for o in SINK_TABLE), *_OF_SPARK}
    for name in given:
        if name.lower() not in known and not name.lower().startswith("kafka."):
            raise unknown_option(name, [o.name for o in (*TABLE, *SINK_TABLE)] + ["kafka.bootstrap.servers"])
