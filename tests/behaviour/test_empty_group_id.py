import pytest

from kohort.errors import ErrorCode


def test_empty_group_id_stores_offsets_and_can_be_described_and_deleted(broker):
    topic = broker.topic()

    assert broker.commit("", topic, {0: 3}) == [0]

    assert broker.committed("", topic, [0]) == [3]
    assert broker.state("") == "Empty"
    assert broker.delete_group("") == [0]
    assert broker.committed("", topic, [0]) == [-1]
    assert broker.delete_group("") == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert broker.describe("", version=6).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("version", [0, 3, 4, 9])
def test_empty_group_id_rejects_joins(broker, version):
    ann = broker.member("", join_version=version)

    assert ann.refused_join() == ErrorCode.INVALID_GROUP_ID
    assert ann.sync(version=4).error_code == ErrorCode.INVALID_GROUP_ID
    assert ann.heartbeat() == ErrorCode.INVALID_GROUP_ID
    assert ann.leave().error_code == ErrorCode.INVALID_GROUP_ID
