"""Protobuf classes of tests, made from descriptors: a message in an imported file, nested messages, two versions."""

from __future__ import annotations

from typing import Any

from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

STRING = FieldDescriptorProto.TYPE_STRING
INT64 = FieldDescriptorProto.TYPE_INT64


def _field(message: Any, name: str, number: int, kind: int, of: str = "") -> None:
    field = message.field.add(name=name, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
    if of:
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, of


def made_classes(*, extended: bool = False) -> dict[str, Any]:
    """Return the classes Address (shop/address.proto) and Other, User, User.Login (shop/user.proto).

    ``extended``: User has the additional field ``email``, as in a later version of the file.
    """
    address = FileDescriptorProto(name="shop/address.proto", package="shop", syntax="proto3")
    _field(address.message_type.add(name="Address"), "city", 1, STRING)
    user = FileDescriptorProto(name="shop/user.proto", package="shop", syntax="proto3")
    user.dependency.extend(["shop/address.proto", "google/protobuf/timestamp.proto"])
    _field(user.message_type.add(name="Other"), "id", 1, INT64)
    message = user.message_type.add(name="User")
    _field(message, "name", 1, STRING)
    _field(message, "id", 2, INT64)
    _field(message, "home", 3, STRING, ".shop.Address")
    _field(message, "since", 4, STRING, ".google.protobuf.Timestamp")
    if extended:
        _field(message, "email", 5, STRING)
    _field(message.nested_type.add(name="Login"), "token", 1, STRING)
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(address)
    pool.Add(user)
    names = ("Address", "Other", "User", "User.Login")
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in names}
