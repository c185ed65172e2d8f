from __future__ import annotations

from typing import Any

import pytest

from kohort.broker.dispatch import SERVED
from kohort.errors import ErrorCode
from kohort.testing.script import error_response
from kohort.wire.apis import APIS
from kohort.wire.codec import decode, encode_bytes
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from kohort.wire.schema import Message

CODE = ErrorCode.NOT_COORDINATOR


def codes(message: Message) -> list[int]:
    found = []
    for spec in message.FIELDS:
        value = getattr(message, spec.name)
        if spec.name.endswith("error_code"):
            found.append(value)
        for one in value if isinstance(value, list) else ():
            found += codes(one) if isinstance(one, Message) else []
    return found


def about_one_thing(kind: type[Message]) -> Message:
    fields: dict[str, Any] = {}
    for spec in kind.FIELDS:
        of: Any = spec.of
        if spec.kind == "array" and isinstance(of, type):
            fields[spec.name] = [about_one_thing(of)]
        elif spec.kind == "array":
            fields[spec.name] = ["x" if of.kind == "string" else b"" if of.kind == "bytes" else 0]
    return kind(**fields)


@pytest.mark.parametrize("api", SERVED.values(), ids=lambda api: api.name)
def test_every_api_version_has_an_error_response_with_only_the_code(api):
    for version in range(api.low, api.high + 1):
        answer = error_response(api, about_one_thing(api.request), version, CODE)

        assert answer is not None, version
        read = decode(api.response, version, encode_bytes(answer, version))[0]
        assert set(codes(read)) - {0} == {CODE}, version


def refusal(request: Message, version: int, code: ErrorCode = CODE) -> Any:
    api = APIS[request.API_KEY]
    return error_response(api, request, version, code)


def test_error_response_of_commit_has_every_partition():
    topic = OffsetCommitRequestTopic(
        name="t", partitions=[OffsetCommitRequestPartition(partition_index=i, committed_offset=5) for i in (0, 3)]
    )

    answer = refusal(OffsetCommitRequest(group_id="g", topics=[topic]), 8)

    assert [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in answer.topics] == [
        ("t", [(0, CODE), (3, CODE)])
    ]


def test_error_response_of_fetch_has_every_partition_except_for_session_errors():
    request = FetchRequest(topics=[FetchTopic(topic_id=b"i" * 16, partitions=[FetchPartition(partition=2)])])

    answer = refusal(request, 13, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    of_session = refusal(request, 13, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    (topic,) = answer.responses
    assert (answer.error_code, topic.topic_id) == (0, b"i" * 16)
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [(2, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    assert (of_session.error_code, of_session.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


def test_error_response_of_old_versions_uses_their_fields():
    old = refusal(FindCoordinatorRequest(key="g"), 1)
    new = refusal(FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4)
    oldest = refusal(
        OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[1])]), 1
    )

    assert old.error_code == CODE
    assert [(one.key, one.error_code) for one in new.coordinators] == [("g", CODE), ("h", CODE)]
    assert [(p.partition_index, p.error_code) for p in oldest.topics[0].partitions] == [(1, CODE)]


def test_metadata_of_all_topics_has_no_error_field():
    assert refusal(MetadataRequest(topics=None), 9) is None
    answer = refusal(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("t", CODE)]
