"""KIP-229: DeleteGroups deletes empty groups, each with its own result."""

import pytest

from kohort.errors import ErrorCode


@pytest.mark.parametrize("version", [0, 1, 2])
def test_empty_group_is_deleted_with_its_offsets(broker, version):
    group, topic = broker.group(), broker.topic()
    assert broker.commit(group, topic, {0: 7, 1: 8}) == [0, 0]

    assert broker.delete_group(group, version=version) == [0]

    assert group not in broker.listed()
    assert broker.committed(group, topic, [0, 1]) == [-1, -1]
    assert broker.delete_group(group) == [ErrorCode.GROUP_ID_NOT_FOUND]


def test_group_with_members_is_not_deleted(broker):
    ann = broker.member(broker.group())
    broker.stable(ann)

    assert broker.delete_group(ann.group) == [ErrorCode.NON_EMPTY_GROUP]
    assert ann.heartbeat() == 0


def test_group_without_remaining_members_is_deleted(broker):
    ann = broker.member(broker.group())
    broker.stable(ann)
    ann.leave()

    assert broker.state(ann.group) == "Empty"
    assert broker.delete_group(ann.group) == [0]
    assert broker.state(ann.group) == "Dead"


def test_each_group_of_a_delete_request_is_answered_once(broker):
    missing, busy = broker.group("gone"), broker.member(broker.group("busy"))
    broker.commit(missing, broker.topic(), {0: 1})
    broker.stable(busy)

    codes = broker.delete_group(missing, busy.group, f"missing-{broker.mark}", "", missing)

    assert codes == [0, ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND, 0]


def test_deleted_group_can_be_created_again(broker):
    ann = broker.member(broker.group())
    broker.stable(ann)
    ann.leave()
    broker.delete_group(ann.group)

    again = broker.member(ann.group)
    broker.stable(again)

    assert again.generation == 1
