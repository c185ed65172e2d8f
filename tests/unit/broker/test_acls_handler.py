"""Requests about ACLs: nothing is guarded here, and each of them says so."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.acls import (
    AclCreation,
    AclFilter,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

TOPIC, READ, ALLOW = 2, 3, 3
REFUSED = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_whoever_asks_for_acls_hears_that_there_is_no_authorizer(peer, version):
    answer = peer.ask(DescribeAclsRequest(resource_type_filter=TOPIC, operation=READ, permission_type=ALLOW), version)

    assert ((answer.error_code, answer.error_message), answer.resources) == (REFUSED, [])


def test_each_creation_and_each_filter_is_refused_by_itself(peer):
    creation = AclCreation(resource_type=TOPIC, resource_name="a", principal="User:a", host="*", operation=READ)
    chosen = AclFilter(resource_type_filter=TOPIC, resource_name_filter="a", operation=READ)

    made = peer.ask(CreateAclsRequest(creations=[creation, creation]), 3)
    gone = peer.ask(DeleteAclsRequest(filters=[chosen, chosen]), 3)

    assert [(r.error_code, r.error_message) for r in made.results] == [REFUSED, REFUSED]
    assert [(r.error_code, r.error_message, r.matching_acls) for r in gone.filter_results] == [(*REFUSED, [])] * 2
