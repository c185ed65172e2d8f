"""Protobuf codec: message paths, classes from descriptors, damaged values."""

from __future__ import annotations

import base64

import pytest

from kohort.errors import ConfigError, UndecodableValue
from kohort.schemas.framing import reference_bytes
from kohort.schemas.protobuf import ProtobufDeserializer, ProtobufSerializer, message_path
from kohort.schemas.schema import PROTOBUF, RegisteredSchema, ResolvedSchema, Schema
from kohort.schemas.serde import SerializationContext
from support.protobuf_messages import made_classes
from unit.schemas.test_avro import NoRegistry

CLASSES = made_classes()
User, Address = CLASSES["User"], CLASSES["Address"]
CTX = SerializationContext("t")


def as_resolved(*, extended: bool = False) -> ResolvedSchema:
    classes = made_classes(extended=extended)
    texts = [base64.b64encode(classes[n].DESCRIPTOR.file.serialized_pb).decode() for n in ("User", "Address")]
    return ResolvedSchema(RegisteredSchema(1, Schema(texts[0], PROTOBUF)), (("shop/address.proto", texts[1]),))


@pytest.mark.parametrize(("name", "path"), [("Address", (0,)), ("Other", (0,)), ("User", (1,)), ("User.Login", (1, 0))])
def test_message_path_has_the_index_of_each_level(name: str, path: tuple[int, ...]) -> None:
    assert message_path(CLASSES[name].DESCRIPTOR) == path
    assert ProtobufSerializer(CLASSES[name], NoRegistry()).path == path


def test_message_of_a_generated_class_needs_no_registry() -> None:
    user = User(name="x", id=3, home=Address(city="Bonn"))
    data = reference_bytes(7, (1,)) + user.SerializeToString()
    assert ProtobufDeserializer(User)(data, CTX) == user


def test_class_is_made_from_the_descriptor_of_the_writer() -> None:
    user = made_classes(extended=True)["User"](name="x", email="a@b", home=None)
    decoder = ProtobufDeserializer(registry=NoRegistry())._decoder
    read = decoder(as_resolved(extended=True), None, (1,))(user.SerializeToString())
    assert (read.name, read.email, read.DESCRIPTOR.full_name) == ("x", "a@b", "shop.User")
    older = decoder(as_resolved(), None, (1,))(user.SerializeToString())
    assert not hasattr(older, "email")
    assert decoder(as_resolved(), None, (1, 0))(b"\n\1t").token == "t"


def test_path_outside_of_the_schema_is_rejected() -> None:
    decoder = ProtobufDeserializer(registry=NoRegistry())._decoder
    for path in ((2,), (1, 1), (0, 0)):
        with pytest.raises(ConfigError, match="no message at index path"):
            decoder(as_resolved(), None, path)


@pytest.mark.parametrize("text", ['syntax = "proto3"; message A {}', "AAAA", ""])
def test_schema_that_is_no_descriptor_is_rejected(text: str) -> None:
    writer = ResolvedSchema(RegisteredSchema(1, Schema(text, PROTOBUF)))
    with pytest.raises(ConfigError, match=r"message_type|no message at index path"):
        ProtobufDeserializer(registry=NoRegistry())._decoder(writer, None, (0,))


def test_schema_with_a_missing_import_is_rejected() -> None:
    writer = ResolvedSchema(as_resolved().registered)
    with pytest.raises(ConfigError, match="invalid Protobuf schema"):
        ProtobufDeserializer(registry=NoRegistry())._decoder(writer, None, (1,))


@pytest.mark.parametrize("payload", [b"\x0a\x05ab", b"\xff", b"\x0a\x01\xff"])
def test_damaged_message_is_undecodable(payload: bytes) -> None:
    with pytest.raises(UndecodableValue, match="schema 7: Protobuf"):
        ProtobufDeserializer(User)(reference_bytes(7, (1,)) + payload, CTX)


def test_other_objects_than_generated_classes_are_rejected() -> None:
    with pytest.raises(ConfigError, match="expected a generated Protobuf class"):
        ProtobufDeserializer(dict)
    with pytest.raises(ConfigError, match=r"kohort\.SchemaRegistry"):
        ProtobufDeserializer()
    encode = ProtobufSerializer(User, NoRegistry())._encoder(as_resolved())
    with pytest.raises(TypeError, match="expected a message of User, not Address"):
        encode(Address())
