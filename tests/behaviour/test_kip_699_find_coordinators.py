"""KIP-699: FindCoordinator takes several keys."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest


def test_each_key_is_answered_in_order(broker):
    keys = [broker.group(f"g{i}") for i in range(20)]

    answer = broker.ask(FindCoordinatorRequest(coordinator_keys=keys), 6)

    assert [c.key for c in answer.coordinators] == keys
    assert {c.error_code for c in answer.coordinators} == {0}
    assert {f"{c.host}:{c.port}" for c in answer.coordinators} == {broker.bootstrap}


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_earlier_versions_have_one_key(broker, version):
    answer = broker.ask(FindCoordinatorRequest(key=broker.group()), version)

    assert (answer.error_code, f"{answer.host}:{answer.port}") == (0, broker.bootstrap)


def test_request_without_keys_has_an_empty_response(broker):
    assert broker.ask(FindCoordinatorRequest(coordinator_keys=[]), 4).coordinators == []


def test_share_group_coordinator_needs_version_6(broker):
    answer = broker.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=["k"]), 5)

    assert [c.error_code for c in answer.coordinators] == [ErrorCode.INVALID_REQUEST]
    assert [(c.node_id, c.host, c.port) for c in answer.coordinators] == [(-1, "", -1)]
