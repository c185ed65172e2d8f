"""An Apache Kafka for tests: started by ``tools/kafka/run.py``, or the running one at KAFKA_BOOTSTRAP."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

OPTIONS = {
    "group_min_session_timeout_ms": "500",
    "group_max_size": "5",
    "group_consumer_min_session_timeout_ms": "500",
    "group_consumer_min_heartbeat_interval_ms": "100",
}
"""Short sessions and small groups, so that tests reach the limits."""
RUNNING: list[Any] = []
"""Running Apache Kafkas that ``apache_kafka`` started."""
TOOL = Path(__file__).parents[3] / "tools" / "kafka" / "run.py"


@cache
def kafka_module() -> ModuleType:
    """Import ``tools/kafka/run.py``, with or without its jars."""
    spec = importlib.util.spec_from_file_location("kafka_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def kafka_tool() -> ModuleType:
    """Import ``tools/kafka/run.py`` with its jars. Skips if they are not available, unless peers are required."""
    tool = kafka_module()
    lack = tool.missing()
    if os.environ.get("KOHORT_REQUIRE_PEERS"):
        assert lack is None, lack
        tool.resolve()
    elif lack or not tool.are_here():
        pytest.skip(lack or "Apache Kafka is not here yet: python tools/kafka/run.py --resolve")
    return tool


@contextmanager
def apache_kafka() -> Iterator[str]:
    """Yield the address of a running Apache Kafka."""
    if "KAFKA_BOOTSTRAP" in os.environ:
        yield os.environ["KAFKA_BOOTSTRAP"]
        return
    with kafka_tool().Kafka(**OPTIONS) as running:
        RUNNING.append(running)
        try:
            yield running.bootstrap
        finally:
            RUNNING.remove(running)


def what_it_printed() -> str:
    """Return the end of the broker's log, for a failed test."""
    return "\n".join(kafka.log() for kafka in RUNNING)
