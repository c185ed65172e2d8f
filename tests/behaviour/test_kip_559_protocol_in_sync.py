"""KIP-559: JoinGroup 7 and SyncGroup 5 carry the protocol type and name, which must match the group's."""

import pytest

from kohort.errors import ErrorCode


def test_join_and_sync_return_the_protocol(broker):
    ann = broker.member(broker.group(), protocol_type="connect", protocols=[("eager", b"")])
    ann.join()

    joined = ann.joined()
    synced = ann.sync({ann.member_id: b"x"})

    assert (joined.protocol_type, joined.protocol_name) == ("connect", "eager")
    assert (synced.protocol_type, synced.protocol_name) == ("connect", "eager")


@pytest.mark.parametrize("wrong", [{"protocol_type": "connect"}, {"protocol_name": "sticky"}])
def test_sync_with_another_protocol_is_rejected(broker, wrong):
    ann = broker.member(broker.group())
    ann.join()
    ann.joined()

    answer = ann.sync({ann.member_id: b"x"}, **wrong)

    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (answer.protocol_type, answer.protocol_name, answer.assignment) == (None, None, b"")
    assert ann.sync({ann.member_id: b"x"}).assignment == b"x"


@pytest.mark.parametrize("missing", [{"protocol_type": None}, {"protocol_name": None}])
def test_sync_version_5_requires_protocol_type_and_name(broker, missing):
    ann = broker.member(broker.group())

    assert ann.sync(**missing).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_sync_before_version_5_has_no_protocol(broker, version):
    ann = broker.member(broker.group())
    ann.join()
    ann.joined()

    assert ann.sync({ann.member_id: b"x"}, version=version).assignment == b"x"
