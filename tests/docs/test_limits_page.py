"""docs/limits.md names options with their defaults, metrics and errors that there are, and no limit is missing."""

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
OF_BROKERS: dict[str, Option] = {o.name: o for table in (TopicConfig, BrokerConfig) for o in options_of(table)}
OF_CLIENTS: dict[str, Option] = {o.name: o for table in (ProducerConfig, ConsumerConfig) for o in options_of(table)}
SAYS_LIMIT = re.compile(r"(?:^|\.)(?:max|limit|size|count|slots|rate)(?:\.|$)")
NO_LIMITS = {
    "connections.max.reauth.ms": "how long a login is good for",
    "quota.window.size.seconds": "how usage is measured",
    "controller.quota.window.size.seconds": "how usage is measured",
    "log.cleaner.max.compaction.lag.ms": "when a log is compacted",
    "max.compaction.lag.ms": "when a log is compacted",
    "log.message.timestamp.before.max.ms": "which times of records are taken",
    "log.message.timestamp.after.max.ms": "which times of records are taken",
    "message.timestamp.before.max.ms": "which times of records are taken",
    "message.timestamp.after.max.ms": "which times of records are taken",
    "group.consumer.max.session.timeout.ms": "what options of groups may say",
    "group.consumer.max.heartbeat.interval.ms": "what options of groups may say",
    "group.consumer.max.assignment.interval.ms": "what options of groups may say",
}
"""Options whose names sound like a limit, and nothing grows without them."""
ELSEWHERE = {"kohort.MetricsCollector", "net.ipv4.tcp_mem"}
"""Names with dots that are no options."""


def names_in(text: str) -> list[str]:
    """Return what stands in backticks and has the form of an option."""
    return [name for name in re.findall(r"`([a-z][\w.]*\.[\w.]+)`", text) if name not in ELSEWHERE]


def in_words(option: Option) -> Iterator[str]:
    """Yield the ways in which the page may write a default."""
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


def says(cell: str, words: str) -> bool:
    return re.search(rf"(?<![\w,.]){re.escape(words)}(?![\w]|,\d)", cell) is not None


def test_the_tables_have_a_row_for_each_thing_and_it_is_whole():
    limits = [row for row in ROWS if len(row) != 3]

    assert len(limits) > 70
    assert [row[0] for row in limits if len(row) != 5] == []
    assert len({row[0] for row in limits}) == len(limits), "two rows are called the same"
    assert [row[0] for row in limits if not row[1] or not row[2]] == [], "a bound and a default"


def test_every_option_that_is_a_limit_is_on_the_page():
    limits = [name for name, o in OF_BROKERS.items() if SAYS_LIMIT.search(name) and not o.no_effect]
    named = set(names_in(TABLES))

    assert [name for name in limits if name not in named and name not in NO_LIMITS] == [], "give it a row, or a reason"
    assert [name for name in NO_LIMITS if name not in OF_BROKERS or name in named] == []


def test_every_option_on_the_page_is_one_with_its_default():
    wrong = []
    for what, bound, default, *_ in (row for row in ROWS if len(row) == 5):
        for name in names_in(bound):
            listener = re.sub(r"^listener\.name\.NAME\.", "", name)
            options = [table[listener] for table in (OF_BROKERS, OF_CLIENTS) if listener in table]
            if not options or (listener != name and listener not in LIMITS):
                wrong.append(f"{what}: there is no option {name}")
            elif not any(says(default, words) for option in options for words in in_words(option)):
                wrong.append(f"{what}: {name} is {options[0].default} by default, and not {default}")
    assert wrong == []


def test_the_metrics_on_the_page_are_there():
    named = set(re.findall(r"`(kohort_[a-z_]+)`", PAGE))

    assert len(named) > 15
    assert named - CATALOGUE.keys() == set()


def test_the_errors_and_rights_on_the_page_are_there():
    named = set(re.findall(r"\b[A-Z]{2,}(?:_[A-Z]+)+\b", PAGE))

    assert len(named) > 8
    assert named - set(ErrorCode.__members__) - set(Operation.__members__) == set()


@pytest.mark.parametrize(
    ("name", "cell", "holds"),
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
def test_a_default_is_found_in_the_words_of_the_page(name, cell, holds):
    assert any(says(cell, words) for words in in_words(OF_BROKERS[name])) is holds
