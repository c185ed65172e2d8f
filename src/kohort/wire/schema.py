"""Declaration of a message: fields, their versions, nullable and tagged fields.

One class declares all versions of a message, like the message definitions of Kafka::

    class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
        group_id: str = string()
        generation_id: int = int32()
        member_id: str = string()
        group_instance_id: str | None = string("3+", nullable="3+", default=None)

Every field has a default. For the type checker a message is frozen. At run time it is a plain slotted class, because a
frozen one would triple the cost of construction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeVar, dataclass_transform

from kohort.model import NO_UUID

Kind = Literal["fixed", "string", "bytes", "records", "array", "struct"]
M = TypeVar("M", bound="Message")

NEW_LIST: Final = object()
MAX_VERSION: Final = 32767
STRING_MAX: Final = 0x7FFF
"""Limit of a string in bytes; Kafka also rejects a longer compact string."""


class Versions(NamedTuple):
    """Closed range of versions; ``1+`` is open-ended, ``none`` is empty."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high


def parse_versions(text: str) -> Versions:
    """Parse ``"3"``, ``"0-9"``, ``"6+"`` or ``"none"``."""
    if text == "none":
        return Versions(1, 0)
    if text.endswith("+"):
        return Versions(int(text[:-1]), MAX_VERSION)
    low, _, high = text.partition("-")
    return Versions(int(low), int(high or low))


@dataclass(slots=True)
class FieldSpec:
    """Declared field. ``code``: format of a fixed type for ``struct.Struct``; ``of``: element of an array or struct."""

    kind: Kind
    versions: Versions
    default: Any
    nullable: Versions
    ignorable: bool
    tag: int | None = None
    code: str = ""
    of: FieldSpec | type[Message] | None = None
    name: str = ""


def _make_init(name: str, fields: tuple[FieldSpec, ...]) -> Any:
    """Return a keyword-only ``__init__`` with all defaults, compiled once per class."""
    scope: dict[str, Any] = {"NEW": NEW_LIST}
    params, lines = [], []
    for i, spec in enumerate(fields):
        if spec.kind == "struct" and spec.default is NEW_LIST:
            scope[f"d{i}"] = NEW_LIST
            scope[f"c{i}"] = spec.of
            value = f"c{i}() if {spec.name} is NEW else {spec.name}"
        else:
            scope[f"d{i}"] = spec.default
            value = f"[] if {spec.name} is NEW else {spec.name}" if spec.default is NEW_LIST else spec.name
        params.append(f"{spec.name}=d{i}")
        lines.append(f"    self.{spec.name} = {value}")
    star = "*, " if params else ""
    source = f"def __init__(self, {star}{', '.join(params)}):\n" + ("\n".join(lines) or "    pass")
    exec(compile(source, f"<init {name}>", "exec"), scope)
    return scope["__init__"]


@dataclass_transform(frozen_default=True, kw_only_default=True)
class MessageType(type):
    """Metaclass that converts field specifications to slots, ``__init__``, ``FIELDS`` and ``VALUES``."""

    def __new__(mcls, name: str, bases: tuple[type, ...], space: dict[str, Any], **options: Any) -> MessageType:
        specs: dict[str, FieldSpec] = {}
        for key, value in list(space.items()):
            if isinstance(value, FieldSpec):
                value.name = key
                specs[key] = space.pop(key)
        space.setdefault("__slots__", tuple(specs))
        space["FIELDS"] = tuple(specs.values())
        space["API_KEY"] = options.get("api_key")
        space["VERSIONS"] = parse_versions(options.get("versions", "none"))
        space["FLEXIBLE"] = parse_versions(options.get("flexible", "none"))
        space["__init__"] = _make_init(name, space["FIELDS"])
        space["VALUES"] = attrgetter(*specs) if specs else lambda _: ()
        return super().__new__(mcls, name, bases, space)

    def __init__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any], **_options: Any) -> None:
        super().__init__(name, bases, space)


class Message(metaclass=MessageType):
    """Request, response, record of a system topic, or a struct inside one of them."""

    FIELDS: ClassVar[tuple[FieldSpec, ...]]
    API_KEY: ClassVar[int | None]
    VERSIONS: ClassVar[Versions]
    FLEXIBLE: ClassVar[Versions]
    VALUES: ClassVar[Callable[[Any], Any]]

    __hash__ = None  # type: ignore[assignment]  # compared by value and holds lists

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        values = type(self).VALUES
        return bool(values(self) == values(other))

    def __repr__(self) -> str:
        inner = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.FIELDS)
        return f"{type(self).__name__}({inner})"


def _spec(
    kind: Kind,
    versions: str = "0+",
    *,
    default: Any = None,
    nullable: str = "none",
    ignorable: bool = False,
    tag: int | None = None,
    code: str = "",
    of: FieldSpec | type[Message] | None = None,
) -> Any:
    return FieldSpec(kind, parse_versions(versions), default, parse_versions(nullable), ignorable, tag, code, of)


int8: Final = partial(_spec, "fixed", code="b", default=0)
int16: Final = partial(_spec, "fixed", code="h", default=0)
uint16: Final = partial(_spec, "fixed", code="H", default=0)
int32: Final = partial(_spec, "fixed", code="i", default=0)
int64: Final = partial(_spec, "fixed", code="q", default=0)
float64: Final = partial(_spec, "fixed", code="d", default=0.0)
boolean: Final = partial(_spec, "fixed", code="?", default=False)
uuid: Final = partial(_spec, "fixed", code="16s", default=NO_UUID)
"""16 bytes; all zero means none."""
string: Final = partial(_spec, "string", default="")
data: Final = partial(_spec, "bytes", default=b"")
"""Opaque bytes, copied from the frame."""
records: Final = partial(_spec, "records", nullable="0+")
"""Record batches: a view of the frame after decoding; one buffer or a list of buffers for encoding."""


def array(
    of: FieldSpec | type[Message] | Any,
    versions: str = "0+",
    *,
    default: Any = NEW_LIST,
    nullable: str = "none",
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    """Declare an array of structs, or of a field specification such as ``int32()``."""
    return _spec("array", versions, default=default, nullable=nullable, ignorable=ignorable, tag=tag, of=of)


def struct(
    of: type[Message], versions: str = "0+", *, default: Any = NEW_LIST, nullable: str = "none", tag: int | None = None
) -> Any:
    """Declare a struct. Its default is a struct with the defaults of its fields, unless ``default`` is None."""
    if default is NEW_LIST and all(spec.default is not NEW_LIST for spec in of.FIELDS):
        default = of()
    return _spec("struct", versions, default=default, nullable=nullable, tag=tag, of=of)
