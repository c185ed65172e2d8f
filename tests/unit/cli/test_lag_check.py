"""What ``kohort group lag --fail-above`` lets pass."""

from __future__ import annotations

import pytest

from kohort.cli.group.group_lag import check
from kohort.insight.findings.groups import find_group
from kohort.verbs.refusals import CheckNotMet
from support.machines.group_looks import look, member, part


def test_a_partition_of_which_nothing_is_known_does_not_pass():
    found = find_group([look(0, [member("a", 0, 1)], [part(0, 9, 9), part(1, None, 1_000_000)])])

    assert (found.lag, found.lag_unknown, found.health) == (0, 1, None)
    assert found.sentence.endswith("nothing was ever committed for t-1; of the rest nothing waits.")
    for limits in ((1_000, None), (None, 60_000)):
        with pytest.raises(CheckNotMet, match=r"cannot be told \(nothing is known of 1 of its partitions"):
            check(found, *limits)


def test_a_group_with_nothing_to_read_passes():
    found = find_group([look(0, [member("a", 0)], [part(0, None, 0)])])

    check(found, 0, 0)
    assert (found.lag, found.health) == (0, "OK")
