from __future__ import annotations

from kohort.client.metrics.counts import CountsByName


def test_counter_with_oldest_name_is_dropped_above_limit():
    counts: CountsByName[str, list[int]] = CountsByName(list, 2)
    counts["a"].append(1)
    counts["b"].append(2)

    assert counts["a"] == [1]
    assert counts["c"] == []
    assert list(counts) == ["b", "c"]
    assert counts["a"] == []
