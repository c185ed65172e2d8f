"""JSON Schema codec: validation on and off, references, drafts, damaged values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kohort.errors import ConfigError, UndecodableValue
from kohort.schemas.json_schema import JSONDeserializer, JSONSerializer, validator
from kohort.schemas.schema import JSON, RegisteredSchema, ResolvedSchema, Schema
from kohort.schemas.serde import SerializationContext
from unit.schemas.test_avro import NoRegistry

ORDER = json.dumps({
    "title": "Order", "type": "object", "required": ["id"],
    "properties": {"id": {"type": "integer"}, "to": {"$ref": "address.json"}},
})  # fmt: skip
PLAIN = '{"title": "Plain", "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'
ADDRESS = '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'


def as_resolved(schema: str, *named: tuple[str, str]) -> ResolvedSchema:
    return ResolvedSchema(RegisteredSchema(1, Schema(schema, JSON)), named)


def test_valid_value_is_compact_json() -> None:
    serializer = JSONSerializer(PLAIN, NoRegistry())
    assert serializer.record_name == "Plain"
    assert serializer._encoder(as_resolved(PLAIN))({"a": 1, "b": "é"}) == '{"a":1,"b":"é"}'.encode()


def test_invalid_value_is_rejected_with_its_place() -> None:
    encode = JSONSerializer(PLAIN, NoRegistry())._encoder(as_resolved(PLAIN))
    with pytest.raises(ValueError, match=r"^\$\.a: 'x' is not of type 'integer'"):
        encode({"a": "x"})
    decode = JSONDeserializer(registry=NoRegistry())._decoder(as_resolved(PLAIN), None, ())
    with pytest.raises(UndecodableValue, match=r"JSON: \$: 'a' is a required property"):
        decode(b"{}")


def test_validation_may_be_off() -> None:
    assert JSONSerializer(PLAIN, NoRegistry(), validate=False)._encoder(as_resolved(PLAIN))({"a": "x"}) == b'{"a":"x"}'
    decode = JSONDeserializer(registry=NoRegistry(), validate=False)._decoder(as_resolved(PLAIN), None, ())
    assert decode(b"{}") == {}


def test_reader_schema_judges_in_place_of_the_writers() -> None:
    decode = JSONDeserializer('{"required": ["b"]}', None, NoRegistry())._decoder(
        as_resolved(PLAIN), as_resolved('{"required": ["b"]}'), ()
    )
    assert decode(b'{"b": 1}') == {"b": 1}


def test_reference_is_resolved_by_its_name() -> None:
    check = validator(ORDER, (("address.json", ADDRESS),))
    check({"id": 1, "to": {"city": "Bonn"}})
    with pytest.raises(ValueError, match=r"\$\.to: 'city' is a required property"):
        check({"id": 1, "to": {}})


def test_reference_without_schema_is_never_loaded() -> None:
    check = validator('{"$ref": "http://127.0.0.1:1/x.json"}', ())
    with pytest.raises(ValueError, match="which no reference names"):
        check({})


@pytest.mark.parametrize(
    ("schema", "problem"),
    [("{", "not JSON"), ("[]", "expected an object"), ('{"type": "nothing"}', "invalid JSON Schema: 'nothing'")],
)
def test_invalid_schema_is_rejected_when_the_serializer_is_made(schema: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        JSONSerializer(schema, NoRegistry())


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"a": 1} x', b"[" * 100_000])
def test_damaged_json_is_undecodable(data: bytes) -> None:
    decode = JSONDeserializer(registry=NoRegistry(), validate=False)._decoder(as_resolved(PLAIN), None, ())
    with pytest.raises(UndecodableValue, match=r"^JSON: "):
        decode(data)


def test_deserializer_without_registry_removes_the_framing() -> None:
    deserializer = JSONDeserializer(PLAIN)
    ctx = SerializationContext("t")
    assert deserializer(b'\0\0\0\0\7{"a": 1}', ctx) == {"a": 1}
    with pytest.raises(UndecodableValue, match="schema 7: JSON"):
        deserializer(b"\0\0\0\0\7{}", ctx)
    with pytest.raises(ConfigError, match=r"kohort\.SchemaRegistry"):
        JSONDeserializer()


def test_from_dict_gets_value_and_context() -> None:
    def with_topic(value: Any, ctx: SerializationContext) -> Any:
        return ctx.topic, ctx.is_key, value

    deserializer = JSONDeserializer(PLAIN, with_topic)
    assert deserializer(b'\0\0\0\0\7{"a": 1}', SerializationContext("t", "key")) == ("t", True, {"a": 1})
