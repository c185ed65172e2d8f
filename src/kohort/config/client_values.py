"""Spellings of option values in other Kafka clients: case, booleans, Java's class names, old names of policies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from kohort.config.options import INT_MAX, Option

FLAGS: Final[Mapping[str, str]] = {"1": "true", "t": "true", "0": "false", "f": "false"}
"""Booleans of librdkafka beside true and false."""
RESETS: Final[Mapping[str, str]] = {
    "smallest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "end": "latest",
    "error": "none",
}
"""Values of librdkafka and kafka-python for ``auto.offset.reset``."""
ASSIGNORS: Final[Mapping[str, str]] = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
"""Assignors by Java's simple class names."""


def as_spelled(option: Option, given: Any) -> Any:
    """Return ``given`` as the option's table spells it: ``sasl_ssl`` is ``SASL_SSL``, ``1`` is ``true``."""
    if option.type is bool:
        return FLAGS.get(str(given).strip().lower(), given)
    if option.name == "auto.offset.reset":
        return _offset_reset(given)
    if option.name == "retries" and isinstance(given, float) and given == math.inf:
        return INT_MAX  # kafka-python's default
    if option.type is not list:
        return _choice(option, given)
    items = [item.strip() for item in given.split(",") if item.strip()] if isinstance(given, str) else given
    return [_item(option, item) for item in items] if isinstance(items, list | tuple) else given


def _offset_reset(given: Any) -> Any:
    if isinstance(given, timedelta):
        return f"by_duration:PT{given.total_seconds():f}S"
    text = str(given).strip()
    lower = text.lower()
    return RESETS.get(lower, lower if lower in ("earliest", "latest", "none") else text)


def _item(option: Option, item: Any) -> Any:
    if option.name == "partition.assignment.strategy":
        if isinstance(item, str):
            item = ASSIGNORS.get(item.rpartition(".")[2], item)
        elif isinstance(item, type) and (name := getattr(item, "name", None)) in option.choices:
            item = name  # an assignor class of kafka-python or aiokafka
    return _choice(option, item)


def _choice(option: Option, given: Any) -> Any:
    if isinstance(given, str) and option.choices:
        return next((choice for choice in option.choices if choice.lower() == given.strip().lower()), given)
    return given
