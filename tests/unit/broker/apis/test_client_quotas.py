"""DescribeClientQuotas and AlterClientQuotas, with the messages of Apache Kafka 4.3."""

from __future__ import annotations

import json
import math

import pytest

from kohort.broker.cluster.security_store import SECURITY_FILE
from kohort.errors import ErrorCode, StorageError
from kohort.log.storage import MemoryStorage
from kohort.wire.messages.quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    QuotaAlteration,
    QuotaEntityPart,
    QuotaFilterComponent,
)
from support.machines.broker_stage import BrokerStage
from support.machines.quotas import alteration, set_quotas

EXACT, DEFAULT, ANY = range(3)
INVALID = ErrorCode.INVALID_REQUEST


def alter(peer, *entries, validate_only=False, version=1):
    answer = peer.ask(AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only), version)
    return [(e.error_code, e.error_message) for e in answer.entries]


def describe(peer, *components, strict=False, version=1):
    filter_components = [QuotaFilterComponent(entity_type=t, match_type=m, match=n) for t, m, n in components]
    return peer.ask(DescribeClientQuotasRequest(components=filter_components, strict=strict), version)


def entities(answer):
    assert answer.error_code == 0
    return {
        tuple((p.entity_type, p.entity_name) for p in e.entity): {v.key: v.value for v in e.values}
        for e in answer.entries
    }


# ------------------------------------------------------------ altering


@pytest.mark.parametrize("version", [0, 1])
def test_altered_quotas_are_described(peer, version):
    assert alter(peer, alteration({"user": "alice"}, producer_byte_rate=1000), version=version) == [(0, None)]
    answer = describe(peer, version=version)

    assert answer.error_message == ""
    assert entities(answer) == {(("user", "alice"),): {"producer_byte_rate": 1000.0}}


def test_quotas_survive_a_restart():
    stage = BrokerStage()
    peer = stage.connect()
    set_quotas(peer, {"user": None, "client-id": "app"}, request_percentage=12.5, controller_mutation_rate=math.inf)
    set_quotas(peer, {"ip": "10.0.0.1"}, connection_creation_rate=3)
    stage.restart()

    assert entities(describe(stage.connect())) == {
        (("client-id", "app"), ("user", None)): {"request_percentage": 12.5, "controller_mutation_rate": math.inf},
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 3.0},
    }
    assert stage.broker.state.cluster.quotas.any_on_requests


def test_entity_is_removed_with_its_last_quota(peer):
    set_quotas(peer, {"user": "alice"}, producer_byte_rate=1, consumer_byte_rate=2)
    set_quotas(peer, {"user": "alice"}, producer_byte_rate=None)
    assert entities(describe(peer)) == {(("user", "alice"),): {"consumer_byte_rate": 2.0}}

    set_quotas(peer, {"user": "alice"}, consumer_byte_rate=None)
    assert entities(describe(peer)) == {}


def test_removing_an_unset_quota_succeeds(peer):
    assert alter(peer, alteration({"user": "bob"}, producer_byte_rate=None, nope=None), alteration({"ip": "::1"})) == [
        (0, None),
        (0, None),
    ]
    assert entities(describe(peer)) == {}


def test_validate_only_changes_no_quota(peer):
    good, bad = alteration({"user": "a"}, producer_byte_rate=1), alteration({"user": "b"}, producer_byte_rate=0)
    assert alter(peer, good, bad, validate_only=True) == [
        (0, None),
        (INVALID, "Quota producer_byte_rate must be greater than 0"),
    ]
    assert entities(describe(peer)) == {}


@pytest.mark.parametrize(
    ("entity", "key", "value", "words"),
    [
        ({"user": "a"}, "producer_byte_rate", 0.0, "Quota producer_byte_rate must be greater than 0"),
        ({"user": "a"}, "consumer_byte_rate", -1.0, "Quota consumer_byte_rate must be greater than 0"),
        ({"user": "a"}, "request_percentage", math.nan, "Quota request_percentage must be greater than 0"),
        ({"user": "a"}, "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        ({"user": "a"}, "producer_byte_rate", 0.5, "producer_byte_rate cannot be a fractional value."),
        ({"user": "a"}, "producer_byte_rate", 1e30, "Proposed value for producer_byte_rate is too large for a LONG."),
        (
            {"client-id": "a"},
            "consumer_byte_rate",
            math.inf,
            "Proposed value for consumer_byte_rate is too large for a LONG.",
        ),
        (
            {"ip": "::1"},
            "connection_creation_rate",
            3e9,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        ({"ip": "::1"}, "connection_creation_rate", 1.5, "connection_creation_rate cannot be a fractional value."),
        ({"user": "a"}, "nope", 1.0, "Invalid configuration key nope"),
        ({"user": "a"}, "connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        ({"ip": "::1"}, "producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
        ({}, "producer_byte_rate", 1.0, "Invalid empty client quota entity"),
        ({"group": "a"}, "producer_byte_rate", 1.0, "Unhandled client quota entity type: group"),
        ({"": "a"}, "producer_byte_rate", 1.0, "Unhandled client quota entity type: "),
        ({"user": ""}, "producer_byte_rate", 1.0, "Empty user not supported"),
        ({"client-id": ""}, "producer_byte_rate", 1.0, "Empty client-id not supported"),
        ({"ip": ""}, "connection_creation_rate", 1.0, "Empty ip not supported"),
        ({"ip": "nonsense!"}, "connection_creation_rate", 1.0, "nonsense! is not a valid IP or resolvable host."),
        (
            {"ip": "::1", "user": "a"},
            "connection_creation_rate",
            1.0,
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId",
        ),
    ],
)
def test_invalid_quota_alteration_is_rejected_with_a_message(peer, entity, key, value, words):
    assert alter(peer, alteration(entity, **{key: value})) == [(INVALID, words)]
    assert entities(describe(peer)) == {}


def test_invalid_quota_rejects_only_its_entry_of_the_request(peer):
    answer = alter(
        peer, alteration({"user": "a"}, producer_byte_rate=1, nope=1), alteration({"user": "b"}, producer_byte_rate=1)
    )

    assert answer == [(INVALID, "Invalid configuration key nope"), (0, None)]
    assert entities(describe(peer)) == {(("user", "b"),): {"producer_byte_rate": 1.0}}


def test_duplicate_quota_entity_is_rejected_with_a_single_response_entry(peer):
    once, again = (alteration({"user": None}, producer_byte_rate=rate) for rate in (1, 2))
    words = "Ignoring duplicate entity ClientQuotaEntity(entries={user=<default>})"
    assert alter(peer, once, again) == [(INVALID, words)]

    twice = alteration({"user": "a"}, producer_byte_rate=1)
    twice.ops.extend(twice.ops)
    assert alter(peer, twice) == [(INVALID, words.replace("<default>", "a"))]
    assert entities(describe(peer)) == {}


def test_last_name_counts_in_a_quota_entity_with_a_duplicate_type(peer):
    parts = [QuotaEntityPart(entity_type="user", entity_name=name) for name in ("a", "b")]
    of_both = QuotaAlteration(entity=parts, ops=alteration({}, producer_byte_rate=1).ops)

    assert alter(peer, of_both) == [(0, None)]
    assert entities(describe(peer)) == {(("user", "b"),): {"producer_byte_rate": 1.0}}


def test_different_notations_of_an_ip_address_share_one_quota():
    stage = BrokerStage()
    set_quotas(stage.connect(), {"ip": "0:0:0:0:0:0:0:1"}, connection_creation_rate=1)

    assert stage.broker.state.cluster.quotas.table.connection_rate("::1") == 1.0
    assert stage.broker.state.cluster.quotas.table.connection_rate("::2") is None


def test_failed_write_changes_no_quota():
    stage = BrokerStage(FullStorage())
    answer = alter(stage.connect(), alteration({"user": "a"}, producer_byte_rate=1))

    assert answer[0][0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert SECURITY_FILE in answer[0][1]
    assert entities(describe(stage.connect())) == {}


def test_quotas_above_the_size_limit_are_rejected():
    stage = BrokerStage()
    peer = stage.connect()
    names = [alteration({"user": f"{i:04}" * 5_000}, producer_byte_rate=1) for i in range(500)]
    peer.send(AlterClientQuotasRequest(entries=names), 1)
    stage.advance(1)

    assert {e.error_code for e in peer.take().entries} == {ErrorCode.POLICY_VIOLATION}
    assert entities(describe(peer)) == {}


class FullStorage(MemoryStorage):
    def replace(self, path, data, **how):  # type: ignore[override]
        if path == SECURITY_FILE:
            raise StorageError("the disk is full")
        super().replace(path, data, **how)


# ------------------------------------------------------------ describing


@pytest.fixture
def peer_with_quotas(peer):
    for entity in (
        {"user": "x", "client-id": "y"},
        {"user": "x", "client-id": None},
        {"user": None, "client-id": "y"},
        {"user": None},
        {"user": "x"},
        {"client-id": "y"},
    ):
        set_quotas(peer, entity, consumer_byte_rate=1)
    set_quotas(peer, {"ip": None}, connection_creation_rate=1)
    return peer


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, 7),
        ([], True, 0),
        ([("user", EXACT, "x")], False, 3),
        ([("user", EXACT, "x")], True, 1),
        ([("user", EXACT, "")], False, 0),
        ([("user", DEFAULT, None)], False, 2),
        ([("user", ANY, None)], False, 5),
        ([("user", ANY, None)], True, 2),
        ([("client-id", EXACT, "y"), ("user", ANY, None)], False, 2),
        ([("client-id", ANY, None), ("user", ANY, None)], True, 3),
        ([("ip", ANY, None)], False, 1),
    ],
)
def test_quota_filter_returns_entities_that_match_all_components(peer_with_quotas, components, strict, found):
    assert len(entities(describe(peer_with_quotas, *components, strict=strict))) == found


@pytest.mark.parametrize(
    ("components", "code", "words"),
    [
        ([("", EXACT, "x")], 42, "Invalid empty entity type."),
        ([("zzz", EXACT, "x")], 35, "Unsupported entity type zzz"),
        ([("user", EXACT, None)], 42, "Request specified MATCH_TYPE_EXACT, but set match string to null."),
        ([("user", DEFAULT, "x")], 42, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
        ([("user", ANY, "x")], 42, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."),
        ([("user", 3, None)], 42, "Unknown match type 3"),
        (
            [("user", EXACT, "x"), ("user", ANY, None)],
            42,
            "Entity type user cannot appear more than once in the filter.",
        ),
        (
            [("ip", ANY, None), ("user", ANY, None)],
            42,
            "Invalid entity filter component combination. IP filter component should not be used with user or"
            " clientId filter component.",
        ),
    ],
)
def test_invalid_quota_filter_is_rejected_with_a_message(peer_with_quotas, components, code, words):
    answer = describe(peer_with_quotas, *components)
    assert (answer.error_code, answer.error_message, answer.entries) == (code, words, None)


# ------------------------------------------------------------ stored quotas


def kept(section):
    storage = MemoryStorage()
    storage.replace(SECURITY_FILE, json.dumps({"version": 1, "quotas": section}).encode())
    return storage


def test_stored_quotas_are_loaded():
    stage = BrokerStage(kept([{"entity": {"user": None}, "values": {"request_percentage": "Infinity"}}]))
    assert entities(describe(stage.connect())) == {(("user", None),): {"request_percentage": math.inf}}


@pytest.mark.parametrize(
    "section",
    [
        [3],
        [{}],
        [{"entity": {"user": "a"}}],
        [{"entity": [], "values": {}}],
        [{"entity": {}, "values": {"producer_byte_rate": 1}}],
        [{"entity": {"group": "a"}, "values": {"producer_byte_rate": 1}}],
        [{"entity": {"user": 7}, "values": {"producer_byte_rate": 1}}],
        [{"entity": {"user": "a"}, "values": {"producer_byte_rate": "much"}}],
        [{"entity": {"user": "a"}, "values": {"producer_byte_rate": 0}}],
        [{"entity": {"user": "a"}, "values": {"producer_byte_rate": None}}],
        [{"entity": {"user": "a"}, "values": ["producer_byte_rate"]}],
        [{"entity": {"ip": "nowhere"}, "values": {"connection_creation_rate": 1}}],
        [{"entity": {"user": "a"}, "values": {"nope": 1}}],
    ],
)
def test_invalid_stored_quotas_prevent_the_broker_start(section):
    with pytest.raises(StorageError, match=r"kohort-security\.json: section 'quotas' cannot be read \(.*\)\. Repair"):
        BrokerStage(kept(section))
