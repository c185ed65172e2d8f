"""DescribeAcls, CreateAcls and DeleteAcls, with and without an authorizer."""

from __future__ import annotations

import json

import pytest

from kohort.errors import ConfigError, ErrorCode, StorageError
from kohort.security.acls import Operation, ResourceType
from kohort.wire.messages.acls import AclCreation, AclFilter, CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.machines.broker_stage import BrokerStage
from support.machines.guarded_stage import AUTHORIZER, GuardedStage

ANY, MATCH, LITERAL, PREFIXED, ALLOW = 1, 2, 3, 4, 3
TOPIC, READ = ResourceType.TOPIC, Operation.READ
REFUSED = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
SUPER = {"super_users": "User:ANONYMOUS"}


def creation(name: str = "a", pattern: int = LITERAL, **more) -> AclCreation:
    fields = {"principal": "User:bob", "host": "*", "operation": READ, "permission_type": ALLOW, **more}
    return AclCreation(**{"resource_type": TOPIC, "resource_name": name, "resource_pattern_type": pattern, **fields})


def choice(name: str | None = None, pattern: int = ANY, **more) -> dict:
    return {
        "resource_type_filter": ANY, "resource_name_filter": name, "pattern_type_filter": pattern,
        "principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY, **more,
    }  # fmt: skip


def names(answer) -> list[tuple[str, int]]:
    return sorted((resource.resource_name, resource.pattern_type) for resource in answer.resources)


@pytest.fixture
def guarded() -> GuardedStage:
    return GuardedStage(**SUPER)


@pytest.fixture
def admin(guarded):
    return guarded.connect()


def make(admin, *creations: AclCreation) -> list[tuple[int, str | None]]:
    answer = admin.ask(CreateAclsRequest(creations=list(creations)), 3)
    return [(result.error_code, result.error_message) for result in answer.results]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acl_requests_without_authorizer_return_security_disabled(peer, version):
    answer = peer.ask(DescribeAclsRequest(resource_type_filter=TOPIC, operation=READ, permission_type=ALLOW), version)

    assert ((answer.error_code, answer.error_message), answer.resources) == (REFUSED, [])


def test_acl_requests_without_authorizer_return_an_error_for_each_creation_and_filter(peer):
    chosen = AclFilter(resource_type_filter=TOPIC, resource_name_filter="a", operation=READ)

    made = peer.ask(CreateAclsRequest(creations=[creation(), creation(permission_type=0)]), 3)
    delete_response = peer.ask(DeleteAclsRequest(filters=[chosen, chosen]), 3)

    assert [(r.error_code, r.error_message) for r in made.results] == [REFUSED, REFUSED]
    assert [(r.error_code, r.error_message, r.matching_acls) for r in delete_response.filter_results] == [
        (*REFUSED, [])
    ] * 2


def test_describe_acls_groups_created_acls_by_resource_without_duplicates(admin):
    assert make(admin, creation(), creation(), creation(operation=Operation.WRITE), creation("b")) == [(0, None)] * 4

    answer = admin.ask(DescribeAclsRequest(**choice()), 3)

    assert answer.error_code == 0
    assert {r.resource_name: [(a.principal, a.host, a.operation, a.permission_type) for a in r.acls]
            for r in answer.resources} == {
        "a": [("User:bob", "*", READ, ALLOW), ("User:bob", "*", Operation.WRITE, ALLOW)],
        "b": [("User:bob", "*", READ, ALLOW)],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"resource_name": ""}, "Invalid empty resource name"),
        (
            {"resource_type": ResourceType.CLUSTER, "resource_name": "mine"},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (
            {"principal": "bob"},
            "Could not parse principal from `bob` "
            "(no colon is present separating the principal type from the principal name)",
        ),
        ({"operation": ANY}, "Invalid operation ANY"),
        ({"permission_type": ANY}, "Invalid permissionType ANY"),
        ({"resource_type": ANY}, "Invalid resourceType ANY"),
        ({"resource_pattern_type": MATCH}, "Invalid patternType MATCH"),
    ],
)
def test_create_acls_rejects_an_invalid_acl_and_creates_the_others(admin, wrong, words):
    odd = creation()
    for field, value in wrong.items():
        setattr(odd, field, value)

    assert make(admin, odd, creation("b")) == [(ErrorCode.INVALID_REQUEST, words), (0, None)]
    assert names(admin.ask(DescribeAclsRequest(**choice()), 3)) == [("b", LITERAL)]


def test_create_acls_accepts_unusual_hosts_names_and_operations(admin):
    odd = [creation(host="no host"), creation(principal="User:"), creation(operation=Operation.IDEMPOTENT_WRITE)]

    assert make(admin, *odd) == [(0, None)] * 3


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("field", ["resource_type", "operation", "permission_type"])
@pytest.mark.parametrize("value", [0, 99, -1])
def test_unknown_enum_value_in_an_acl_request_closes_the_connection(guarded, admin, version, field, value):
    odd = creation()
    setattr(odd, field, value)

    admin.send(CreateAclsRequest(creations=[creation("b"), odd]), version)

    assert "is unknown" in admin.closed
    other = guarded.connect()
    assert names(other.ask(DescribeAclsRequest(**choice()), version)) == []


@pytest.mark.parametrize(
    ("name", "pattern", "found"),
    [
        (None, ANY, [("*", 3), ("a", 3), ("a", 4), ("ab", 3), ("b", 4)]),
        ("a", ANY, [("a", 3), ("a", 4)]),
        ("a", LITERAL, [("a", 3)]),
        ("a", PREFIXED, [("a", 4)]),
        ("ab", MATCH, [("*", 3), ("a", 4), ("ab", 3)]),
        ("c", MATCH, [("*", 3)]),
        (None, MATCH, [("*", 3), ("a", 3), ("a", 4), ("ab", 3), ("b", 4)]),
        (None, PREFIXED, [("a", 4), ("b", 4)]),
        ("nothing", LITERAL, []),
    ],
)
def test_acl_filter_matches_the_same_acls_as_kafka(admin, name, pattern, found):
    make(admin, creation("*"), creation("a"), creation("a", PREFIXED), creation("ab"), creation("b", PREFIXED))

    assert names(admin.ask(DescribeAclsRequest(**choice(name, pattern)), 3)) == found


def test_acl_filter_selects_by_principal_resource_and_operation(admin):
    make(admin, creation(), creation("b", principal="User:eve"), creation("c", host="10.0.0.1"),
         creation("d", operation=Operation.ALL), creation("e", permission_type=2))  # fmt: skip

    def found(**more):
        return [name for name, _ in names(admin.ask(DescribeAclsRequest(**choice(**more)), 3))]

    assert found(principal_filter="User:eve") == ["b"]
    assert found(host_filter="10.0.0.1") == ["c"]
    assert found(operation=Operation.ALL) == ["d"]
    assert found(permission_type=2) == ["e"]
    assert found(resource_type_filter=ResourceType.GROUP) == []


def test_delete_acls_returns_the_acls_matched_by_each_filter(admin):
    make(admin, creation("a"), creation("b"), creation("c"))
    filters = [AclFilter(**choice("a")), AclFilter(**choice("none")), AclFilter(**choice(None, PREFIXED))]

    answer = admin.ask(DeleteAclsRequest(filters=[*filters, AclFilter(**choice("b", LITERAL))]), 3)

    results = [(r.error_code, [acl.resource_name for acl in r.matching_acls]) for r in answer.filter_results]
    assert results == [(0, ["a"]), (0, []), (0, []), (0, ["b"])]
    assert names(admin.ask(DescribeAclsRequest(**choice()), 3)) == [("c", LITERAL)]


def test_acls_survive_a_restart(guarded, admin):
    make(admin, creation("a"), creation("b", PREFIXED, host="10.0.0.0/8"))

    guarded.restart()

    assert names(guarded.connect().ask(DescribeAclsRequest(**choice()), 3)) == [("a", LITERAL), ("b", PREFIXED)]


def test_changed_acl_applies_to_the_next_request_of_a_connected_client():
    stage = GuardedStage(super_users="User:admin")
    stage.let_everything()
    peer = stage.connect()
    peer.create("a")
    stage.let()
    request = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
    assert peer.ask(request, 9).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    stage.let_everything()
    assert peer.ask(request, 9).topics[0].error_code == 0

    stage.let()
    assert peer.ask(request, 9).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_failed_write_changes_no_acl(guarded, admin, monkeypatch):
    make(admin, creation("a"))

    def full(name, data, **_how):
        raise StorageError("no space left")

    monkeypatch.setattr(guarded.storage, "replace", full)

    ((code, words),) = make(admin, creation("b"))
    delete_result = admin.ask(DeleteAclsRequest(filters=[AclFilter(**choice())]), 3).filter_results[0]

    assert (code, delete_result.error_code) == (ErrorCode.KAFKA_STORAGE_ERROR,) * 2
    assert "no space left" in words
    assert names(admin.ask(DescribeAclsRequest(**choice()), 3)) == [("a", LITERAL)]


def test_acls_above_the_limit_are_rejected(guarded, admin, monkeypatch):
    monkeypatch.setattr("kohort.broker.cluster.access_control.ACLS_MOST", 2)

    assert make(admin, creation("a"), creation("b")) == [(0, None)] * 2
    ((code, words),) = make(admin, creation("c"))

    assert (code, words) == (ErrorCode.POLICY_VIOLATION, "3 ACLs exceed the limit of 2")
    assert make(admin, creation("a")) == [(0, None)], "the existing ACL needs no further room"


@pytest.mark.parametrize(
    "stored_acls",
    [
        [7], [{}], ["TOPIC"], [None],
        [{"resourceType": "TOPIC"}],
        *(
            [{"resourceType": "TOPIC", "resourceName": "a", "patternType": "LITERAL", "principal": "User:a",
              "host": "*", "operation": "READ", "permissionType": "ALLOW", field: value}]
            for field, value in [
                ("resourceType", "TOPICS"), ("resourceType", 2), ("resourceName", 7), ("resourceName", ""),
                ("patternType", "MATCH"), ("principal", "bob"), ("principal", None), ("host", ["*"]),
                ("operation", "ANY"), ("operation", []), ("permissionType", "MAYBE"),
            ]
        ),
    ],
)  # fmt: skip
def test_error_of_an_invalid_stored_acl_at_broker_start_names_its_position(guarded, stored_acls):
    sections = {"version": 1, "acls": stored_acls, "users": [], "quotas": []}
    guarded.storage.replace("kohort-security.json", json.dumps(sections).encode())

    with pytest.raises(StorageError, match=r"kohort-security\.json cannot be read: entry 0 of 'acls' is not an ACL"):
        guarded.restart()


def test_super_users_need_a_principal_type_and_have_all_rights():
    with pytest.raises(ConfigError, match=r"super\.users: Could not parse principal from `bob`"):
        BrokerStage(authorizer_class_name=AUTHORIZER, super_users="User:a; bob")
    stage = GuardedStage(super_users=" User:CN=x,O=y ;User:ANONYMOUS; ")

    stage.connect().create("a")


def test_resource_without_acls_is_open_with_allow_everyone_if_no_acl_found():
    stage = GuardedStage(allow_everyone_if_no_acl_found=True)
    peer = stage.connect()
    peer.create("a")

    make(peer, creation("a", principal="User:someone"))

    topics = peer.ask(MetadataRequest(topics=None), 9).topics
    assert [topic.name for topic in topics] == [], "the topic has an ACL of a different user"
