"""Every message at every version, against the encoders of kio and kafka-python.

A generated message is written by kohort and read by the peer, which must see the same values under the same names; then
the peer writes it, byte for byte as kohort did; and kohort reads the peer's bytes back to the message it began with.
"""

from __future__ import annotations

import datetime
import enum
import importlib
import io
import re
import uuid
from dataclasses import fields, is_dataclass
from typing import Any

import kio.serial
import pytest
from hypothesis import Phase, given, settings

from kohort.wire.codec import decode, encode_bytes
from kohort.wire.messages.api_versions import ApiVersionsResponse
from kohort.wire.messages.topics import DescribeTopicPartitionsResponse
from kohort.wire.schema import Message
from support.wire_values import every_version, messages

REQUESTS_AND_RESPONSES = [(m, v) for m, v in every_version() if m.API_KEY is not None]
FEW = settings(max_examples=5, phases=[Phase.generate])

NEWER_THAN_THE_PEERS = {
    ("ApiVersionsRequest", 5): "of Kafka 4.4; both peers end at 4",
    ("ApiVersionsResponse", 5): "of Kafka 4.4; both peers end at 4",
    ("DeleteGroupsRequest", 3): "of Kafka 4.4; both peers end at 2",
    ("DeleteGroupsResponse", 3): "of Kafka 4.4; both peers end at 2",
    ("TxnOffsetCommitRequest", 6): "of Kafka 4.4; both peers end at 5",
    ("TxnOffsetCommitResponse", 6): "of Kafka 4.4; both peers end at 5",
}
"""Everything else, both peers have."""
CASES = [(m, v) for m, v in REQUESTS_AND_RESPONSES if (m.__name__, v) not in NEWER_THAN_THE_PEERS]

RENAMED_BY_KAFKA_PYTHON = {
    "cluster_authorized_operations": "authorized_operations",
    "topic_authorized_operations": "authorized_operations",
}
NOT_IN_KAFKA_PYTHON = {
    *("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"),
    *("GetTelemetrySubscriptions", "PushTelemetry"),
}
"""kafka-python speaks neither KIP-848 nor KIP-714: these are kio's to judge alone."""
NOT_RENAMED = DescribeTopicPartitionsResponse
EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)


def case_id(case: object) -> str:
    return case.__name__ if isinstance(case, type) else f"v{case}"


# ---------------------------------------------------------------- messages as plain data, independent of the library


def plain(message: Message, version: int) -> dict[str, Any]:
    """The fields that the version has, as plain values; times under their name without the unit."""
    return {
        f.name.removesuffix("_ms"): plain_value(getattr(message, f.name), version)
        for f in message.FIELDS
        if version in f.versions
    }


def plain_value(value: Any, version: int) -> Any:
    if isinstance(value, Message):
        return plain(value, version)
    if isinstance(value, list):
        return [plain_value(v, version) for v in value]
    return bytes(value) if isinstance(value, memoryview) else value


def plain_kio(value: Any, kind: str = "") -> Any:
    """kio's value as ours would be: ids as bytes, times as milliseconds, errors as numbers."""
    if is_dataclass(value):
        return {f.name: plain_kio(getattr(value, f.name), f.metadata.get("kafka_type", "")) for f in fields(value)}
    if isinstance(value, tuple):
        return [plain_kio(v, kind) for v in value]
    if value is None and kind == "uuid":
        return bytes(16)
    if value is None and kind == "datetime_i64":
        return -1
    if isinstance(value, datetime.timedelta):
        return round(value / datetime.timedelta(milliseconds=1))
    if isinstance(value, datetime.datetime):
        return round((value - EPOCH) / datetime.timedelta(milliseconds=1))
    return plain_scalar(value)


def plain_kafka_python(value: Any) -> Any:
    """kafka-python's value as ours would be; it shows a field of 32 bits as a set, and one whole name as half of it."""
    if isinstance(value, dict):
        values = {name.removesuffix("_ms"): plain_kafka_python(v) for name, v in value.items()}
        if "authorized_operations" in values:
            bits = values.pop("authorized_operations")
            unsigned = sum(1 << bit for bit in ({31} if bits is None else bits))
            values["authorized_operations"] = unsigned - (unsigned >> 31 << 32)
        return values
    if isinstance(value, list | tuple):
        return [plain_kafka_python(v) for v in value]
    return plain_scalar(value)


def renamed_for_kafka_python(value: Any) -> Any:
    """Our plain values, under the names that kafka-python changed."""
    if isinstance(value, dict):
        return {RENAMED_BY_KAFKA_PYTHON.get(name, name): renamed_for_kafka_python(v) for name, v in value.items()}
    return [renamed_for_kafka_python(v) for v in value] if isinstance(value, list) else value


def plain_scalar(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, enum.IntEnum):
        return int(value)
    return bytes(value) if isinstance(value, memoryview) else value


# ---------------------------------------------------------------- the peers' classes


def kio_class(message: type[Message], version: int) -> Any:
    side = "request" if message.__name__.endswith("Request") else "response"
    api = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", message.__name__.removesuffix(side.title())).lower()
    return getattr(importlib.import_module(f"kio.schema.{api}.v{version}.{side}"), message.__name__)


def kafka_python_class(message: type[Message]) -> Any:
    for family in ("admin", "consumer", "metadata", "producer", "sasl"):
        found = getattr(importlib.import_module(f"kafka.protocol.{family}"), message.__name__, None)
        if found is not None:
            return found
    raise AssertionError(f"kafka-python has no {message.__name__}")


def agree_with_kio(ours: Message, version: int) -> None:
    body = encode_bytes(ours, version)
    theirs = kio_class(type(ours), version)

    decoded, size = kio.serial.entity_reader(theirs)(body, 0)
    out = io.BytesIO()
    kio.serial.entity_writer(theirs)(out, decoded)

    assert size == len(body)
    assert plain_kio(decoded) == plain(ours, version)
    assert out.getvalue() == body


def agree_with_kafka_python(ours: Message, version: int) -> None:
    if type(ours).__name__.removesuffix("Request").removesuffix("Response") in NOT_IN_KAFKA_PYTHON:
        return
    if isinstance(ours, ApiVersionsResponse) and ours.error_code:
        return  # the peer decodes an error as version 0
    body = encode_bytes(ours, version)

    decoded = kafka_python_class(type(ours)).decode(body, version=version)
    decoded._header = None  # its decoder leaves unset what its encoder looks at

    values = plain(ours, version)
    expected = values if isinstance(ours, NOT_RENAMED) else renamed_for_kafka_python(values)
    assert plain_kafka_python(decoded.to_dict(json=False)) == expected
    assert bytes(decoded.encode(version=version)) == body


@pytest.mark.parametrize(("message", "version"), CASES, ids=case_id)
def test_both_peers_read_the_same_values_and_write_the_same_bytes(message: type[Message], version: int) -> None:
    @FEW
    @given(ours=messages(message, version))
    def check(ours: Message) -> None:
        agree_with_kio(ours, version)
        agree_with_kafka_python(ours, version)
        body = encode_bytes(ours, version)
        assert decode(message, version, body) == (ours, len(body))

    check()


@pytest.mark.parametrize(("name", "version"), NEWER_THAN_THE_PEERS, ids=case_id)
def test_messages_missing_in_peers_are_really_missing(name: str, version: int) -> None:
    (message,) = {m for m, _ in REQUESTS_AND_RESPONSES if m.__name__ == name}
    with pytest.raises(ModuleNotFoundError):
        kio_class(message, version)
    assert kafka_python_class(message).max_version < version


@pytest.mark.parametrize("name", sorted(NOT_IN_KAFKA_PYTHON))
def test_what_kafka_python_lacks_is_really_not_there(name: str) -> None:
    (request,) = {m for m, _ in REQUESTS_AND_RESPONSES if m.__name__ == f"{name}Request"}
    with pytest.raises(AssertionError, match="kafka-python has no"):
        kafka_python_class(request)
