"""What is mutated, and which tests are asked to notice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("src/kohort/coordinator", "src/kohort/log", "src/kohort/client/group")
TESTS = (
    "tests/unit/coordinator",
    "tests/unit/log",
    "tests/unit/client",
    "tests/unit/broker/test_groups_over_the_wire.py",
    "tests/unit/broker/test_consumer_groups_over_the_wire.py",
    "tests/unit/broker/test_cluster_groups.py",
    "tests/unit/broker/test_group_journal.py",
    "tests/unit/broker/test_offsets_topic_compaction.py",
    "tests/unit/broker/test_power_loss.py",
    "tests/unit/broker/test_transactions.py",
    "tests/property/test_compaction_against_dict.py",
    "tests/property/test_consumer_group_events.py",
    "tests/property/test_coordinator_events.py",
    "tests/property/test_load_against_replay.py",
    "tests/property/test_log_against_list.py",
    "tests/property/test_membership_events.py",
    "tests/property/test_transactions_against_model.py",
)
"""Folders and files: those that are about these rooms, without sockets and clocks, so that a busy machine does not make
them fail."""
SEEDS = 1
"""Of each world of the simulator."""


def sources() -> list[Path]:
    """Find the source files of the rooms."""
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def tests() -> Iterator[Path]:
    """Find the files of tests."""
    for name in TESTS:
        yield from sorted((ROOT / name).rglob("test_*.py")) or [ROOT / name]
