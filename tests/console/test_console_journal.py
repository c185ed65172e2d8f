import msgspec
import pytest

from kohort.console.journal import ENTRY_BYTES, ConsoleJournal
from kohort.coordinator.journal import build_entry
from kohort_lab.sim.recorded_runs import journal_of_seed

BACK_MS = 60_000


@pytest.fixture(scope="module")
def entries():
    found = journal_of_seed("group", 7)[1]
    return [msgspec.structs.replace(one, group=name) for one in found for name in ("orders", "clicks")]


def test_rebalances_are_computed_only_for_groups_with_new_entries(entries):
    kept = ConsoleJournal()
    kept.add(entries[:-1])
    first = kept.recent_rebalances(0, BACK_MS)
    assert first == kept.rebalances(0, None, BACK_MS)

    kept.add(entries[-1:])
    second = kept.recent_rebalances(0, BACK_MS)

    assert second == kept.rebalances(0, None, BACK_MS)
    again = {group for group in second if any(a is not b for a, b in zip(first[group], second[group], strict=False))}
    assert again == {entries[-1].group}


def test_cached_rebalances_expire_without_new_entries(entries):
    kept = ConsoleJournal()
    kept.add(entries)
    every = kept.recent_rebalances(0, BACK_MS)["orders"]
    middle = every[len(every) // 2].opened_at_ms

    later = kept.recent_rebalances(middle, BACK_MS)["orders"]

    assert later == [one for one in every if one.opened_at_ms >= middle]
    assert len(later) < len(every)
    assert kept.recent_rebalances(0, BACK_MS)["orders"] == every


def test_cached_rebalances_are_removed_with_their_journal_entries(entries):
    size = sum(len(build_entry(one)) + ENTRY_BYTES for one in entries)
    kept = ConsoleJournal(size)
    kept.add(entries)
    kept.recent_rebalances(0, BACK_MS)

    kept.add(msgspec.structs.replace(one, group="a new one") for one in entries)

    assert kept.groups() == ["a new one"]
    assert list(kept.recent_rebalances(0, BACK_MS)) == ["a new one"]
    assert list(kept._cached) == ["a new one"]
