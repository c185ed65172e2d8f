from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kohort
from kohort import AclBinding, AclBindingFilter, ApiError, ClientQuotaEntity, ConfigResource, TopicPartition
from kohort.client.admin.model import PartitionOffset
from kohort.client.admin.operations import REQUIRED_OPERATIONS
from support.security.alice import AS_ALICE, ASKS_FOR_RIGHTS

pytestmark = pytest.mark.ours
NOTE = re.compile(
    r"; User:alice needs (?P<right>[A-Z_]+) on (?P<what>.+): kohort acls add --bootstrap 127\.0\.0\.1:\d+"
    r" --allow-principal User:alice --operation (?P<operation>[A-Z_]+) --(?P<kind>[a-z-]+)(?: (?P<name>\S+))?$"
)
TYPES = {"topic": "topic", "group": "group", "transactional-id": "transactional_id", "cluster": "cluster"}
T, G, ID = "orders", "billing", "tx-1"
TP = TopicPartition(T, 0)

CALLS: dict[str, list[Callable[[kohort.Admin], Any]]] = {
    "create_topics": [lambda a: a.create_topics({"made": 1})],
    "delete_topics": [lambda a: a.delete_topics([T])],
    "create_partitions": [lambda a: a.create_partitions({T: 2})],
    "describe_topics": [lambda a: a.describe_topics([T])[T]],
    "list_offsets": [lambda a: a.list_offsets({TP: "latest"})[TP]],
    "list_ends": [lambda a: a.list_ends([TP])[TP]],
    "first_records": [lambda a: a.first_records([PartitionOffset(TP, 0)])[PartitionOffset(TP, 0)]],
    "delete_records": [lambda a: a.delete_records({TP: 1})],
    "describe_configs": [
        lambda a: a.describe_configs([ConfigResource("topic", T)])[ConfigResource("topic", T)],
        lambda a: a.describe_configs([ConfigResource("group", G)])[ConfigResource("group", G)],
        lambda a: a.describe_configs([ConfigResource("broker", "1")])[ConfigResource("broker", "1")],
    ],
    "alter_configs": [
        lambda a: a.alter_configs({ConfigResource("topic", T): {"retention.ms": "1000"}}),
        lambda a: a.alter_configs({ConfigResource("broker", "1"): {"num.io.threads": "2"}}),
    ],
    "elect_leaders": [lambda a: a.elect_leaders([TP], check=False)],
    "reassign_partitions": [lambda a: a.reassign_partitions({TP: [1]})],
    "list_reassignments": [lambda a: a.list_reassignments()],
    "describe_log_dirs": [lambda a: a.describe_log_dirs()[1]],
    "describe_transactions": [lambda a: a.describe_transactions([ID])[ID]],
    "fence_producers": [lambda a: a.fence_producers([ID])],
    "describe_producers": [lambda a: a.describe_producers([TP])[TP]],
    "abort_transaction": [lambda a: a.abort_transaction(TP, 4711, 0)],
    "describe_groups": [lambda a: a.describe_groups([G])[G]],
    "delete_groups": [lambda a: a.delete_groups([G])],
    "list_group_offsets": [lambda a: a.list_group_offsets(G, [TP])[TP]],
    "list_offsets_of_groups": [lambda a: a.list_offsets_of_groups([G])[G]],
    "alter_group_offsets": [lambda a: a.alter_group_offsets(G, {TP: 0})],
    "remove_group_members": [lambda a: a.remove_group_members(G, instance_ids=["one"], check=False)],
    "delete_group_offsets": [lambda a: a.delete_group_offsets(G, [TP])],
    "describe_acls": [lambda a: a.describe_acls()],
    "create_acls": [lambda a: a.create_acls([AclBinding("topic", T, "User:bob", "read")])],
    "delete_acls": [lambda a: a.delete_acls([AclBindingFilter("topic", T, "User:bob")])],
    "describe_user_scram_credentials": [lambda a: a.describe_user_scram_credentials()],
    "alter_user_scram_credentials": [
        lambda a: a.alter_user_scram_credentials([kohort.UserScramCredentialUpsertion("bob", "secret")])
    ],
    "describe_client_quotas": [lambda a: a.describe_client_quotas()],
    "alter_client_quotas": [
        lambda a: a.alter_client_quotas({ClientQuotaEntity(user="bob"): {"producer_byte_rate": 1000}})
    ],
}


@pytest.fixture
def places() -> Iterator[tuple[kohort.Admin, dict[str, str]]]:
    with kohort.Broker(ASKS_FOR_RIGHTS) as broker, kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({T: 1})
        with kohort.Producer(bootstrap_servers=broker.bootstrap, transactional_id=ID) as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send(T, b"one")
        admin.alter_group_offsets(G, {TP: 1})
        yield admin, {"bootstrap.servers": broker.bootstrap_of("SASL"), **AS_ALICE}


def granted(note: str) -> AclBinding:
    assert note.count("kohort acls add") == 1, note
    found = NOTE.search(note)
    assert found is not None, note
    assert found["right"] == found["operation"]
    kind = TYPES[found["kind"]]
    name = found["name"] or "kafka-cluster"
    assert found["what"] == ("the cluster" if kind == "cluster" else f"{found['kind'].replace('-', '.')} {name!r}")
    return AclBinding(kind, name, "User:alice", found["operation"])


def called(alice: kohort.Admin, call: Callable[[kohort.Admin], Any]) -> ApiError | None:
    try:
        call(alice)
    except ApiError as denied:
        return denied
    return None


def test_every_admin_call_with_a_right_has_a_case() -> None:
    assert set(CALLS) == set(REQUIRED_OPERATIONS)


@pytest.mark.parametrize(("call", "number"), [(name, n) for name, made in CALLS.items() for n in range(len(made))])
def test_granting_the_named_right_allows_the_call(
    places: tuple[kohort.Admin, dict[str, str]], call: str, number: int
) -> None:
    admin, as_alice = places
    new_acls: list[AclBinding] = []
    with kohort.Admin(as_alice) as alice:
        while denied := called(alice, CALLS[call][number]):
            acl = granted(str(denied))
            assert acl not in new_acls, f"given what it names, it is denied still: {denied}"
            admin.create_acls([acl])
            new_acls.append(acl)
    assert new_acls, "nobody who has no right is served"
    assert len(new_acls) <= len(REQUIRED_OPERATIONS[call]), f"{new_acls}: the first should have been enough"


def test_result_of_each_item_has_its_missing_right(places: tuple[kohort.Admin, dict[str, str]]) -> None:
    _, as_alice = places
    with kohort.Admin(as_alice) as alice:
        results = alice.create_topics(["a", "b"], check=False)
        assert [granted(str(error)).resource_name for error in results.errors.values()] == ["a", "b"]
        assert alice.list_topics() == []
        assert alice.list_groups() == []
