"""What is mutated, and which tests are asked to notice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("src/kohort/coordinator", "src/kohort/log", "src/kohort/client/group")
TESTS = (
    "tests/unit/coordinator",
    "tests/unit/log",
    "tests/unit/client",
    "tests/unit/broker/cluster/test_cluster_groups.py",
    "tests/unit/broker/cluster/test_cluster_transactions.py",
    "tests/unit/broker/test_consumer_groups_over_the_wire.py",
    "tests/unit/broker/test_disk_refusals.py",
    "tests/unit/broker/apis/test_fetch.py",
    "tests/unit/broker/test_first_fetches.py",
    "tests/unit/broker/test_flush_waits.py",
    "tests/unit/broker/test_group_journal.py",
    "tests/unit/broker/test_groups_over_the_wire.py",
    "tests/unit/broker/test_internal_topics.py",
    "tests/unit/broker/apis/test_list_offsets.py",
    "tests/unit/broker/apis/test_log_dirs.py",
    "tests/unit/broker/test_offsets_topic_compaction.py",
    "tests/unit/broker/apis/test_options_of_groups.py",
    "tests/unit/broker/test_power_loss.py",
    "tests/unit/broker/apis/test_produce.py",
    "tests/unit/broker/test_producer_room.py",
    "tests/unit/broker/apis/test_topics.py",
    "tests/unit/broker/cluster/test_transaction_room.py",
    "tests/unit/broker/apis/test_transactions.py",
    "tests/unit/broker/test_what_members_said.py",
    "tests/unit/insight/test_causes_from_evidence.py",
    "tests/unit/insight/test_journal_findings.py",
    "tests/unit/insight/test_takeovers.py",
    "tests/unit/insight/test_watched_classic_groups.py",
    "tests/unit/insight/test_watched_modern_groups.py",
    "tests/unit/insight/test_why.py",
    "tests/unit/insight/test_why_of_modern_groups.py",
    "tests/unit/metrics/test_rebalance_counts.py",
    "tests/property/test_compaction_against_dict.py",
    "tests/property/test_consumer_group_events.py",
    "tests/property/test_coordinator_events.py",
    "tests/property/test_damaged_folders.py",
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


def importers(paths: list[Path]) -> dict[str, set[str]]:
    """Find for each file of the rooms the files of the rooms that import it, by their paths in the work tree."""
    names = {_module(path): str(path.relative_to(ROOT)) for path in paths}
    found: dict[str, set[str]] = {path: set() for path in names.values()}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module in names:
                found[names[node.module]].add(str(path.relative_to(ROOT)))
    return found


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
