"""ApiVersions: served versions, features, and errors."""

import struct

import pytest

from kohort.errors import ErrorCode
from kohort.wire.apis import APIS
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from support.machines.broker_stage import BrokerStage

REQUEST = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="4.4.0")


def test_every_declared_api_is_served_and_advertised(peer):
    ranges = {r.api_key: (r.min_version, r.max_version) for r in peer.ask(REQUEST, 3).api_keys}

    assert ranges == {key: (api.advertised_low, api.high) for key, api in APIS.items()}


def test_transaction_version_feature_is_2(peer):
    answer = peer.ask(REQUEST, 4)

    finalized = {f.name: (f.min_version_level, f.max_version_level) for f in answer.finalized_features}
    assert finalized["transaction.version"] == (2, 2)
    supported = {f.name: (f.min_version, f.max_version) for f in answer.supported_features}
    assert supported["transaction.version"] == (0, 2)
    assert [f.name for f in peer.ask(REQUEST, 3).supported_features] == ["metadata.version"], (
        "all other features have minimum version 0"
    )


def test_each_version_of_api_versions_is_answered(peer):
    for version in range(6):
        assert len(peer.ask(REQUEST, version).api_keys) == len(APIS)


def test_unsupported_version_gets_a_version_0_response_with_only_api_versions(peer, stage, monkeypatch):
    answers = []
    monkeypatch.setattr(peer, "received", lambda buffers: answers.append(b"".join(buffers)))

    peer.send_bytes(struct.pack(">ihhih", 10, 18, 77, 42, -1))

    from kohort.wire.codec import decode

    length, correlation_id = struct.unpack_from(">ii", answers[0])
    message, end = decode(ApiVersionsResponse, 0, answers[0], 8)
    assert (length, correlation_id, end) == (len(answers[0]) - 4, 42, len(answers[0]))
    assert message.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(r.api_key, r.min_version, r.max_version) for r in message.api_keys] == [(18, 0, 5)]
    assert peer.closed is None


def test_invalid_client_software_name_is_rejected(peer):
    answer = peer.ask(ApiVersionsRequest(client_software_name="a b", client_software_version="1"), 3)

    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("of_cluster", "node_id", "code"),
    [
        (None, -1, ErrorCode.NONE),
        ("this", 1, ErrorCode.NONE),
        ("this", -1, ErrorCode.INVALID_REQUEST),
        (None, 1, ErrorCode.INVALID_REQUEST),
        ("", -1, ErrorCode.INVALID_REQUEST),
        ("", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("this", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
def test_client_that_expects_another_node_or_cluster_gets_rebootstrap_required(peer, stage, of_cluster, node_id, code):
    cluster_id = stage.broker.cluster_id if of_cluster == "this" else of_cluster

    answer = peer.ask(
        ApiVersionsRequest(
            client_software_name="x", client_software_version="1", cluster_id=cluster_id, node_id=node_id
        ),
        5,
    )

    assert answer.error_code == code
    assert bool(answer.api_keys) == (code == ErrorCode.NONE), "an error response lists no APIs"


SOFTWARE = {
    "librdkafka": ("librdkafka", "2.16.0"),
    "a client on librdkafka": ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0"),
    "Java's client": ("apache-kafka-java", "4.4.0"),
}
ON_LIBRDKAFKA = ["librdkafka", "a client on librdkafka"]


def shows_telemetry(peer, client):
    name, version = SOFTWARE[client]
    answer = peer.ask(ApiVersionsRequest(client_software_name=name, client_software_version=version), 3)
    shown = {71, 72} & {r.api_key for r in answer.api_keys}
    assert len(shown) in (0, 2)
    return bool(shown)


def test_telemetry_apis_are_shown_to_librdkafka_only_with_a_subscription(stage, peer):
    subscriptions = stage.broker.state.cluster.subscriptions
    assert {client: shows_telemetry(peer, client) for client in SOFTWARE} == {
        client: client not in ON_LIBRDKAFKA for client in SOFTWARE
    }

    subscriptions.replace("all", {"metrics": "*"})
    assert [shows_telemetry(peer, client) for client in ON_LIBRDKAFKA] == [True, True]

    subscriptions.replace("all", {})
    assert [shows_telemetry(peer, client) for client in ON_LIBRDKAFKA] == [False, False]


def test_telemetry_apis_are_hidden_if_there_are_no_subscriptions():
    peer = BrokerStage(client_metrics_default=[]).connect()

    assert not any(shows_telemetry(peer, client) for client in SOFTWARE)
