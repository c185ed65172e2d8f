"""docs/limits.md cites existing options with their defaults, metrics and errors, and misses no limit."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.config.broker import BrokerConfig
from kohort.config.client import ConsumerConfig, ProducerConfig
from kohort.config.listener_overrides import LIMITS
from kohort.config.options import INT_MAX, Option, options_of
from kohort.config.topic import TopicConfig
from kohort.errors import ErrorCode
from kohort.metrics.catalogue import CATALOGUE
from kohort.security.acls import Operation

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text()
TABLES = PAGE.partition("## How long one request may hold up others")[0]
ROWS = [
    tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
    for line in TABLES.splitlines()
    if line.startswith("| ") and not line.startswith("| what |")
]
BROKER_OPTIONS: dict[str, Option] = {o.name: o for table in (TopicConfig, BrokerConfig) for o in options_of(table)}
CLIENT_OPTIONS: dict[str, Option] = {o.name: o for table in (ProducerConfig, ConsumerConfig) for o in options_of(table)}
LIMIT_NAME = re.compile(r"(?:^|\.)(?:max|limit|size|count|slots|rate)(?:\.|$)")
NO_LIMITS = {
    "connections.max.reauth.ms": "lifetime of a login",
    "quota.window.size.seconds": "measurement of usage",
    "controller.quota.window.size.seconds": "measurement of usage",
    "log.cleaner.max.compaction.lag.ms": "time of compaction",
    "max.compaction.lag.ms": "time of compaction",
    "log.message.timestamp.before.max.ms": "range of record timestamps",
    "log.message.timestamp.after.max.ms": "range of record timestamps",
    "message.timestamp.before.max.ms": "range of record timestamps",
    "message.timestamp.after.max.ms": "range of record timestamps",
    "group.consumer.max.session.timeout.ms": "range of group options",
    "group.consumer.max.heartbeat.interval.ms": "range of group options",
    "group.consumer.max.assignment.interval.ms": "range of group options",
}
"""Options with the name of a limit that bound no growth."""
OTHER_NAMES = {"kohort.MetricsCollector", "net.ipv4.tcp_mem"}
"""Names with dots that are not options."""


def names_in(text: str) -> list[str]:
    """Return the names in backticks that have the form of an option."""
    return [name for name in re.findall(r"`([a-z][\w.]*\.[\w.]+)`", text) if name not in OTHER_NAMES]


def spellings(option: Option) -> Iterator[str]:
    """Yield the accepted spellings of a default."""
    value: Any = option.default
    if isinstance(value, bool):
        yield "on" if value else "off"
    elif isinstance(value, list) or value is None or value == -1:
        yield "none"
    elif isinstance(value, int):
        yield from (str(value), f"{value:,}")
        for unit, size in (("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)):
            if value % size == 0:
                yield f"{value // size} {unit}"
        ms = value * 60_000 if option.name.endswith(".minutes") else value
        for unit, size in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("s", 1000)):
            if ms % size == 0:
                count = ms // size
                yield f"{count} {unit}{'s' if count > 1 and unit != 's' else ''}"


def contains(cell: str, spelling: str) -> bool:
    return re.search(rf"(?<![\w,.]){re.escape(spelling)}(?![\w]|,\d)", cell) is not None


def test_each_row_is_unique_and_has_bound_and_default():
    limits = [row for row in ROWS if len(row) != 3]

    assert len(limits) > 70
    assert [row[0] for row in limits if len(row) != 5] == []
    assert len({row[0] for row in limits}) == len(limits), "duplicate row name"
    assert [row[0] for row in limits if not row[1] or not row[2]] == [], "missing bound or default"


def test_every_limit_option_is_on_the_page():
    limits = [name for name, o in BROKER_OPTIONS.items() if LIMIT_NAME.search(name) and not o.no_effect]
    named = set(names_in(TABLES))

    assert [name for name in limits if name not in named and name not in NO_LIMITS] == [], (
        "add a row, or a reason in NO_LIMITS"
    )
    assert [name for name in NO_LIMITS if name not in BROKER_OPTIONS or name in named] == []


def test_every_option_on_the_page_exists_with_its_default():
    wrong = []
    for what, bound, default, *_ in (row for row in ROWS if len(row) == 5):
        for name in names_in(bound):
            listener = re.sub(r"^listener\.name\.NAME\.", "", name)
            options = [table[listener] for table in (BROKER_OPTIONS, CLIENT_OPTIONS) if listener in table]
            if not options or (listener != name and listener not in LIMITS):
                wrong.append(f"{what}: unknown option {name}")
            elif not any(contains(default, s) for option in options for s in spellings(option)):
                wrong.append(f"{what}: the default of {name} is {options[0].default}, not {default}")
    assert wrong == []


def test_metrics_on_the_page_exist():
    named = set(re.findall(r"`(kohort_[a-z_]+)`", PAGE))

    assert len(named) > 15
    assert named - CATALOGUE.keys() == set()


def test_errors_and_rights_on_the_page_exist():
    named = set(re.findall(r"\b[A-Z]{2,}(?:_[A-Z]+)+\b", PAGE))

    assert len(named) > 8
    assert named - set(ErrorCode.__members__) - set(Operation.__members__) == set()


@pytest.mark.parametrize(
    ("name", "cell", "found"),
    [
        ("queued.max.request.bytes", "64 MiB (Kafka: -1)", True),
        ("queued.max.request.bytes", "164 MiB", False),
        ("offsets.retention.minutes", "7 days", True),
        ("producer.id.expiration.ms", "1 day", True),
        ("producer.id.expiration.ms", "11 days", False),
        ("max.connections", str(INT_MAX), True),
        ("kohort.metrics.max.partitions", "200,000; 1,000", True),
        ("kohort.metrics.max.partitions", "1,000,000", False),
    ],
)
def test_default_is_found_in_a_cell(name, cell, found):
    assert any(contains(cell, s) for s in spellings(BROKER_OPTIONS[name])) is found
