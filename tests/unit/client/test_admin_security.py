"""Admin operations on ACLs, users and quotas against scripted brokers."""

from __future__ import annotations

import base64
import pickle
import random

import pytest

from kohort import (
    AclBinding,
    AclBindingFilter,
    ClientQuotaEntity,
    QuotaMatch,
    ScramCredentialInfo,
    Secret,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kohort.client.admin import acls, quotas, scram_users
from kohort.client.admin.operations import AdminMachine
from kohort.client.requests.engine import Engine
from kohort.client.requests.metadata import Metadata
from kohort.clock import ManualClock
from kohort.config.client import AdminConfig
from kohort.errors import ApiError, ErrorCode, UsageError
from kohort.wire.messages.acls import (
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kohort.wire.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotas,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedQuotas,
    QuotaEntityPart,
    QuotaValue,
)
from kohort.wire.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kohort_lab.machines.loop import Loop
from kohort_lab.machines.scripted import ScriptedBroker

PASSWORD = "alice-secret"


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.loop = Loop(self.clock)
        self.broker = ScriptedBroker()
        self.broker.on(
            MetadataRequest,
            lambda *_: MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=1, host="one", port=9092)], controller_id=1
            ),
        )
        self.loop.serve(("one", 9092), self.broker)
        config = AdminConfig(bootstrap_servers=["one:9092"])
        self.metadata = Metadata(config, random.Random(2))
        self.machine = AdminMachine(config, self.metadata, random.Random(3))
        self.loop.add(Engine(config, [self.machine], self.metadata, random.Random(4)))

    def run(self, operation):
        promise = self.machine.start("the call", operation, 10_000, self.clock.now_ms())
        self.loop.run_until(lambda: promise.done)
        return promise.result()

    def request_of(self, kind):
        (request,) = self.broker.requests(kind)
        return request


@pytest.fixture
def world() -> World:
    return World()


def test_acl_binding_accepts_all_spellings_of_kafka_names():
    acl = AclBinding("TOPIC", "orders", "User:alice", "DescribeConfigs", "ALLOW", pattern_type="Prefixed")

    assert (acl.resource_type, acl.operation, acl.permission, acl.pattern_type) == (
        "topic", "describe_configs", "allow", "prefixed",
    )  # fmt: skip
    assert AclBinding("transactional-id", "t", "User:a", "write").resource_type == "transactional_id"
    assert str(acl) == "allow User:alice to describe_configs topic orders (prefixed)"
    assert str(AclBinding("group", "g", "User:b", "read", "deny", "10.0.0.1")) == (
        "deny User:b from 10.0.0.1 to read group g"
    )


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("operation", "raed", "operation='raed': expected one of any, all, read"),
        ("operation", "raed", "did you mean read?"),
        ("resource_type", "queue", "resource_type='queue'"),
        ("operation", 3, "operation=3"),
        ("operation", "any", "operation='any' is allowed in filters only"),
        ("pattern_type", "match", "pattern_type='match' is allowed in filters only"),
    ],
)
def test_acl_binding_rejects_unknown_names_and_names_allowed_only_in_filters(field, value, words):
    good = {"resource_type": "topic", "resource_name": "t", "principal": "User:a", "operation": "read"}
    with pytest.raises(UsageError) as refused:
        AclBinding(**{**good, field: value})
    assert words in str(refused.value)


def test_describe_acls_returns_matching_acls_sorted(world):
    world.broker.on(
        DescribeAclsRequest,
        lambda *_: DescribeAclsResponse(
            resources=[
                DescribeAclsResource(
                    resource_type=2,
                    resource_name="orders",
                    pattern_type=4,
                    acls=[
                        AclDescription(principal="User:b", host="*", operation=3, permission_type=3),
                        AclDescription(principal="User:a", host="10.0.0.1", operation=99, permission_type=2),
                    ],
                )
            ]
        ),
    )

    found = world.run(acls.describe_acls(AclBindingFilter("topic", "orders-2026", pattern_type="match")))

    request = world.request_of(DescribeAclsRequest)
    assert (request.resource_type_filter, request.resource_name_filter, request.pattern_type_filter) == (
        2,
        "orders-2026",
        2,
    )
    assert (request.principal_filter, request.host_filter, request.operation, request.permission_type) == (
        None,
        None,
        1,
        1,
    )
    assert [str(acl) for acl in found] == [
        "deny User:a from 10.0.0.1 to unknown topic orders (prefixed)",
        "allow User:b to read topic orders (prefixed)",
    ]


def test_acl_call_to_broker_without_authorizer_raises_error_of_broker(world):
    world.broker.on(
        DescribeAclsRequest,
        lambda *_: DescribeAclsResponse(error_code=54, error_message="No Authorizer is configured on the broker"),
    )

    with pytest.raises(ApiError, match=r"SECURITY_DISABLED: No Authorizer is configured") as refused:
        world.run(acls.describe_acls(AclBindingFilter()))

    assert refused.value.code is ErrorCode.SECURITY_DISABLED


def test_create_acls_returns_result_for_each_acl(world):
    good = AclBinding("topic", "orders", "User:alice", "read")
    bad = AclBinding("topic", "orders", "alice", "read")
    answers = [
        AclCreationResult(),
        AclCreationResult(error_code=42, error_message="Could not parse principal from `alice`"),
    ]
    world.broker.on(CreateAclsRequest, lambda *_: CreateAclsResponse(results=answers))

    results = world.run(acls.create_acls([good, bad]))

    (creation, _) = world.request_of(CreateAclsRequest).creations
    assert (creation.resource_type, creation.resource_name, creation.resource_pattern_type) == (2, "orders", 3)
    assert (creation.principal, creation.host, creation.operation, creation.permission_type) == (
        "User:alice",
        "*",
        3,
        3,
    )
    assert results[good] is None
    with pytest.raises(ApiError, match=r"INVALID_REQUEST: .*Could not parse principal from `alice`"):
        results[bad]


def test_delete_acls_returns_deleted_acls_for_each_filter(world):
    acl = AclBinding("cluster", "kafka-cluster", "User:alice", "alter", "deny")
    deleted = DeleteAclsMatchingAcl(
        resource_type=4, resource_name="kafka-cluster", pattern_type=3, principal="User:alice", host="*",
        operation=7, permission_type=2,
    )  # fmt: skip
    answers = [DeleteAclsFilterResult(matching_acls=[deleted]), DeleteAclsFilterResult()]
    world.broker.on(DeleteAclsRequest, lambda *_: DeleteAclsResponse(filter_results=answers))
    all_of_group = AclBindingFilter("group")

    results = world.run(acls.delete_acls([acl.filter, all_of_group]))

    assert results[acl.filter] == (acl,)
    assert results[all_of_group] == ()
    (exact, wide) = world.request_of(DeleteAclsRequest).filters
    assert (exact.pattern_type_filter, exact.operation, exact.permission_type) == (3, 7, 2)
    assert (wide.resource_type_filter, wide.resource_name_filter, wide.pattern_type_filter) == (3, None, 1)


def test_delete_acls_reports_acl_that_broker_did_not_delete(world):
    bad = DeleteAclsMatchingAcl(error_code=42, error_message="no", resource_type=2, operation=3, permission_type=3)
    world.broker.on(
        DeleteAclsRequest, lambda *_: DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(matching_acls=[bad])])
    )

    results = world.run(acls.delete_acls([AclBindingFilter()]))

    assert results.errors[AclBindingFilter()].code is ErrorCode.INVALID_REQUEST


class FixedSalt(random.Random):
    def getrandbits(self, k):
        return int.from_bytes(b"saltsaltsalt".rjust(k // 8, b"\0"), "big")


def test_scram_password_is_salted_by_client_and_never_sent(world):
    upsertion = UserScramCredentialUpsertion("alice", PASSWORD, iterations=8192)
    made = scram_users.salt_password(upsertion, FixedSalt())
    assert made.salt == bytes(12) + b"saltsaltsalt"
    assert len(made.salted) == 32
    assert (
        len(scram_users.salt_password(UserScramCredentialUpsertion("a", "p", "SCRAM-SHA-512"), FixedSalt()).salted)
        == 64
    )
    assert scram_users.hashed(Secret(PASSWORD), "SCRAM-SHA-256", b"saltsaltsalt", 8192) == base64.b64decode(
        "iBBWCP0a4NFG30qZgxHR2CIKpPyikSVub9/BnHKC74c="
    )
    world.broker.on(
        AlterUserScramCredentialsRequest,
        lambda *_: AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(user="alice"),
                AlterUserScramCredentialsResult(
                    user="bob", error_code=91, error_message="Attempt to delete a user credential that does not exist"
                ),
            ]
        ),
    )

    deletion = UserScramCredentialDeletion("bob", "SCRAM-SHA-512")
    results = world.run(scram_users.alter_user_scram_credentials(world.metadata, [deletion], [(upsertion, made)]))

    request = world.request_of(AlterUserScramCredentialsRequest)
    assert [(d.name, d.mechanism) for d in request.deletions] == [("bob", 2)]
    (sent,) = request.upsertions
    assert (sent.name, sent.mechanism, sent.iterations, sent.salt, sent.salted_password) == (
        "alice", 1, 8192, made.salt, made.salted,
    )  # fmt: skip
    assert PASSWORD not in repr((upsertion, made, results))
    assert results["alice"] is None
    assert results.errors["bob"].code is ErrorCode.RESOURCE_NOT_FOUND


def test_scram_password_is_hidden_in_repr_and_can_be_pickled():
    upsertion = UserScramCredentialUpsertion("alice", PASSWORD)
    assert PASSWORD not in f"{upsertion} {upsertion!r}"
    assert pickle.loads(pickle.dumps(upsertion)) == upsertion


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mechanism": "PLAIN"}, "mechanism='PLAIN': expected a SCRAM mechanism, one of SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"password": ""}, "the password of 'alice' is empty"),
        ({"iterations": 4095}, "iterations=4095: expected from 4096 to 16384"),
        ({"iterations": 20000}, "iterations=20000"),
    ],
)
def test_scram_credential_change_rejects_invalid_mechanism_password_or_iterations(change, words):
    with pytest.raises(UsageError, match=words):
        UserScramCredentialUpsertion(**{"user": "alice", "password": PASSWORD, **change})
    with pytest.raises(UsageError, match="mechanism='GSSAPI'"):
        UserScramCredentialDeletion("alice", "GSSAPI")


def test_describe_scram_users_returns_mechanisms(world):
    infos = [CredentialInfo(mechanism=2, iterations=4096), CredentialInfo(mechanism=1, iterations=8192)]
    world.broker.on(
        DescribeUserScramCredentialsRequest,
        lambda *_: DescribeUserScramCredentialsResponse(
            results=[
                DescribeUserScramCredentialsResult(user="zoe", error_code=91, error_message="no such user: zoe"),
                DescribeUserScramCredentialsResult(user="alice", credential_infos=infos),
            ]
        ),
    )

    results = world.run(scram_users.describe_user_scram_credentials(["zoe", "alice"]))

    assert results["alice"] == (ScramCredentialInfo("SCRAM-SHA-256", 8192), ScramCredentialInfo("SCRAM-SHA-512", 4096))
    assert results.errors["zoe"].code is ErrorCode.RESOURCE_NOT_FOUND
    assert [u.name for u in world.request_of(DescribeUserScramCredentialsRequest).users] == ["zoe", "alice"]
    assert dict(world.run(scram_users.describe_user_scram_credentials([]))) == {}


def test_describe_scram_users_without_permission_raises_error(world):
    world.broker.on(DescribeUserScramCredentialsRequest, lambda *_: DescribeUserScramCredentialsResponse(error_code=31))
    with pytest.raises(ApiError, match="CLUSTER_AUTHORIZATION_FAILED"):
        world.run(scram_users.describe_user_scram_credentials(None))
    assert world.request_of(DescribeUserScramCredentialsRequest).users is None


def test_describe_client_quotas_returns_quotas_of_each_entity(world):
    def part(kind, name):
        return QuotaEntityPart(entity_type=kind, entity_name=name)

    world.broker.on(
        DescribeClientQuotasRequest,
        lambda *_: DescribeClientQuotasResponse(
            entries=[
                DescribedQuotas(
                    entity=[part("user", "alice"), part("client-id", None)],
                    values=[QuotaValue(key="request_percentage", value=50.0), QuotaValue(key="a", value=1.5)],
                ),
                DescribedQuotas(entity=[part("ip", None)], values=[]),
            ]
        ),
    )

    quota_entity = ClientQuotaEntity(user="alice", client_id=QuotaMatch.ANY, ip=QuotaMatch.DEFAULT)
    found = world.run(quotas.describe_client_quotas(quota_entity, strict=True))

    request = world.request_of(DescribeClientQuotasRequest)
    assert [(c.entity_type, c.match_type, c.match) for c in request.components] == [
        ("user", 0, "alice"), ("client-id", 2, None), ("ip", 1, None),
    ]  # fmt: skip
    assert request.strict
    assert found == {
        ClientQuotaEntity(ip=QuotaMatch.DEFAULT): {},
        ClientQuotaEntity(user="alice", client_id=QuotaMatch.DEFAULT): {"a": 1.5, "request_percentage": 50.0},
    }
    assert [str(entity) for entity in found] == ["ip <default>", "user alice, client-id <default>"]


def test_describe_client_quotas_raises_error_of_broker(world):
    world.broker.on(
        DescribeClientQuotasRequest,
        lambda *_: DescribeClientQuotasResponse(error_code=42, error_message="no such match", entries=None),
    )
    with pytest.raises(ApiError, match="INVALID_REQUEST: no such match"):
        world.run(quotas.describe_client_quotas(ClientQuotaEntity(), strict=False))


def test_alter_client_quotas_returns_result_for_each_entity(world):
    alice, everyone = ClientQuotaEntity(user="alice"), ClientQuotaEntity(user=QuotaMatch.DEFAULT)
    world.broker.on(
        AlterClientQuotasRequest,
        lambda request, _: AlterClientQuotasResponse(
            entries=[
                AlteredQuotas(entity=request.entries[0].entity),
                AlteredQuotas(entity=request.entries[1].entity, error_code=42, error_message="Invalid key nope"),
            ]
        ),
    )

    changes = {alice: {"producer_byte_rate": 1000, "consumer_byte_rate": None}, everyone: {"nope": 1.0}}
    results = world.run(quotas.alter_client_quotas(world.metadata, changes, validate_only=True))

    alter_request = world.request_of(AlterClientQuotasRequest)
    assert alter_request.validate_only
    assert [(o.key, o.value, o.remove) for o in alter_request.entries[0].ops] == [
        ("producer_byte_rate", 1000.0, False), ("consumer_byte_rate", 0.0, True),
    ]  # fmt: skip
    assert results[alice] is None
    with pytest.raises(ApiError, match="user <default>: Invalid key nope"):
        results[everyone]


def test_alter_client_quotas_rejects_quota_match_any_as_entity_name(world):
    with pytest.raises(UsageError, match=r"QuotaMatch.ANY is allowed in filters only"):
        world.run(
            quotas.alter_client_quotas(
                world.metadata, {ClientQuotaEntity(ip=QuotaMatch.ANY): {"x": 1.0}}, validate_only=False
            )
        )
