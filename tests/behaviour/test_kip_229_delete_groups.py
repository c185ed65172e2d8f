"""KIP-229: DeleteGroups takes empty groups, each for itself."""

import pytest

from kohort.errors import ErrorCode


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_empty_group_goes_with_its_offsets(crew, version):
    group, topic = crew.group(), crew.topic()
    assert crew.commit(group, topic, {0: 7, 1: 8}) == [0, 0]

    assert crew.delete_group(group, version=version) == [0]

    assert group not in crew.listed()
    assert crew.committed(group, topic, [0, 1]) == [-1, -1]
    assert crew.delete_group(group) == [ErrorCode.GROUP_ID_NOT_FOUND]


def test_a_group_with_members_stays(crew):
    ann = crew.member(crew.group())
    crew.stable(ann)

    assert crew.delete_group(ann.group) == [ErrorCode.NON_EMPTY_GROUP]
    assert ann.heartbeat() == 0


def test_a_group_that_members_left_can_go(crew):
    ann = crew.member(crew.group())
    crew.stable(ann)
    ann.leave()

    assert crew.state(ann.group) == "Empty"
    assert crew.delete_group(ann.group) == [0]
    assert crew.state(ann.group) == "Dead"


def test_each_group_is_answered_for_itself_and_once(crew):
    gone, busy = crew.group("gone"), crew.member(crew.group("busy"))
    crew.commit(gone, crew.topic(), {0: 1})
    crew.stable(busy)

    codes = crew.delete_group(gone, busy.group, f"missing-{crew.mark}", "", gone)

    assert codes == [0, ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND, 0]


def test_a_deleted_group_can_begin_anew(crew):
    ann = crew.member(crew.group())
    crew.stable(ann)
    ann.leave()
    crew.delete_group(ann.group)

    again = crew.member(ann.group)
    crew.stable(again)

    assert again.generation == 1
