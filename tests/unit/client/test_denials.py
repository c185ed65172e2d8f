"""Authorization errors of clients, with the command that adds the missing ACL."""

from __future__ import annotations

import pytest

from kohort.client.reading.list_offsets import LATEST
from kohort.client.requests.denials import answer_error
from kohort.config.client import AdminConfig, ConsumerConfig, ProducerConfig
from kohort.config.client_options import client_config
from kohort.errors import ApiError, ErrorCode
from kohort.model import OffsetAndMetadata
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kohort.wire.messages.offsets import OffsetCommitRequest
from support.machines.consumer_stage import tp
from support.machines.scripted_group import ScriptedGroup

TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
BOB = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "bob",
    "sasl_password": "planted-secret",
}
ACLS = "kohort acls add --bootstrap a:1 --allow-principal"


def denial_message(cls: type, code: ErrorCode, name: str = "", **options: object) -> str:
    config = client_config(cls, None, {"bootstrap_servers": "a:1,b:2", **options})
    return str(answer_error(config, code, "text", name=name))


@pytest.mark.parametrize(
    ("cls", "options", "code", "name", "words"),
    [
        (ConsumerConfig, BOB, TOPIC, "t", "User:bob needs READ on topic 't': %s User:bob --operation READ --topic t"),
        (ProducerConfig, BOB, TOPIC, "t", "User:bob needs WRITE on topic 't': %s User:bob --operation WRITE --topic t"),
        (
            ConsumerConfig,
            {**BOB, "group_id": "g"},
            GROUP,
            "",
            "User:bob needs READ on group 'g': %s User:bob --operation READ --group g",
        ),
        (
            ProducerConfig,
            {**BOB, "transactional_id": "x y"},
            TRANSACTION,
            "",
            "User:bob needs WRITE on transactional.id 'x y': %s User:bob --operation WRITE --transactional-id 'x y'",
        ),
        (
            ProducerConfig,
            BOB,
            CLUSTER,
            "",
            "User:bob needs IDEMPOTENT_WRITE on the cluster: %s User:bob --operation IDEMPOTENT_WRITE --cluster",
        ),
        (
            ConsumerConfig,
            {"security_protocol": "SSL"},
            TOPIC,
            "t",
            "this client needs READ on topic 't': %s User:NAME --operation READ --topic t",
        ),
        (
            ConsumerConfig,
            {},
            TOPIC,
            "t",
            "User:ANONYMOUS needs READ on topic 't': %s User:ANONYMOUS --operation READ --topic t",
        ),
    ],
)
def test_authorization_error_names_command_that_adds_acl(cls, options, code, name, words):
    assert denial_message(cls, code, name, **options) == f"{code.name}: text; {words % ACLS}"


def test_authorization_error_suggests_no_command_if_missing_acl_is_unknown():
    assert denial_message(ConsumerConfig, ErrorCode.INVALID_REQUEST, "t") == "INVALID_REQUEST: text"
    assert denial_message(AdminConfig, TOPIC, "t", **BOB) == "TOPIC_AUTHORIZATION_FAILED: text"
    assert denial_message(ConsumerConfig, GROUP, **BOB) == "GROUP_AUTHORIZATION_FAILED: text"


def test_list_offsets_request_for_denied_topic_fails_at_once():
    stage = ScriptedGroup()
    refused = MetadataResponse(topics=[MetadataResponseTopic(name="t", error_code=TOPIC)])
    stage.one.on(MetadataRequest, lambda *_: refused)
    user = stage.user()
    promise = user.machine.list_offsets({tp("t-0"): LATEST}, stage.loop.clock.now_ms() + 60_000)

    stage.loop.run_until(lambda: promise.done, 5000)

    assert isinstance(promise.error, ApiError)
    assert promise.error.code is TOPIC
    assert "needs READ on topic 't'" in str(promise.error)


def test_denied_offset_commit_error_names_the_topic():
    stage = ScriptedGroup()
    user = stage.user("t", group_id="g", enable_auto_commit="false")
    stage.until(lambda: user.owned == "t-0")
    stage.then(OffsetCommitRequest, TOPIC)

    with pytest.raises(ApiError, match="committing t-0 for group 'g'; User:ANONYMOUS needs READ on topic 't'"):
        stage.settled(user.machine.commit({tp("t-0"): OffsetAndMetadata(3)}, stage.now_ms + 5_000))
