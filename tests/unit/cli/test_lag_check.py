from __future__ import annotations

from kohort.cli.group.describe import LagLimit, lag_above
from kohort.insight.findings.groups import find_group
from support.machines.group_looks import look, member, part


def test_unknown_lag_of_partition_exceeds_limit_of_fail_above_option():
    found = find_group([look(0, [member("a", 0, 1)], [part(0, 9, 9), part(1, None, 1_000_000)])])

    assert (found.lag, found.lag_unknown, found.health) == (0, 1, None)
    assert found.sentence.endswith("no commit so far for t-1; other partitions: no lag.")
    for limit in (LagLimit(records=1_000), LagLimit(waited_ms=60_000)):
        assert "is unknown (unknown for 1 of its partitions)" in str(lag_above(found, limit))


def test_group_without_records_is_within_limit_of_fail_above_option():
    found = find_group([look(0, [member("a", 0)], [part(0, None, 0)])])

    assert lag_above(found, LagLimit(0, 0)) is None
    assert (found.lag, found.health) == (0, "OK")
