"""Declare a message: its fields, the versions that have them, what may be null, what is tagged.

One class serves all versions of a message and reads like Kafka's own definition of it::

    class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
        group_id: str = string()
        generation_id: int = int32()
        member_id: str = string()
        group_instance_id: str | None = string("3+", nullable="3+", default=None)

Every field has a default (Kafka's: zero, empty, or the one declared). For the type checker a message is frozen; at run
time it is a plain slotted class, because freezing at run time triples the cost of construction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypedDict, TypeVar, Unpack, dataclass_transform

from kohort.model import NO_UUID

Kind = Literal["fixed", "string", "bytes", "records", "array", "struct"]
M = TypeVar("M", bound="Message")

NEW_LIST: Final = object()
MAX_VERSION: Final = 32767
STRING_MAX: Final = 0x7FFF
"""Bytes of a string, whatever carries its length: Kafka refuses a longer one in compact form, too."""


class Versions(NamedTuple):
    """A closed range of versions; ``1+`` is open-ended, ``none`` is empty."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high


def parse_versions(text: str) -> Versions:
    """``"3"``, ``"0-9"``, ``"6+"`` or ``"none"``."""
    if text == "none":
        return Versions(1, 0)
    if text.endswith("+"):
        return Versions(int(text[:-1]), MAX_VERSION)
    low, _, high = text.partition("-")
    return Versions(int(low), int(high or low))


@dataclass(slots=True)
class FieldSpec:
    """One declared field. ``code``: struct's letter of a fixed type; ``of``: element of an array or struct."""

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
    """Return a keyword-only ``__init__`` with every default, compiled once per class."""
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
    """Turns field specifications into slots, ``__init__``, ``__repr__`` and ``__eq__``."""

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
    """A request, a response, a record of a system topic, or a struct inside one of them."""

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


class _FieldOptions(TypedDict, total=False):
    """Further properties of a field."""

    ignorable: bool
    tag: int | None
    code: str
    of: Any


def _spec(kind: Kind, versions: str, default: Any, *, nullable: str = "none", **options: Unpack[_FieldOptions]) -> Any:
    return FieldSpec(
        kind=kind,
        versions=parse_versions(versions),
        default=default,
        nullable=parse_versions(nullable),
        ignorable=options.get("ignorable", False),
        tag=options.get("tag"),
        code=options.get("code", ""),
        of=options.get("of"),
    )


def int8(versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> Any:
    return _spec("fixed", versions, default, ignorable=ignorable, tag=tag, code="b")


def int16(versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> Any:
    return _spec("fixed", versions, default, ignorable=ignorable, tag=tag, code="h")


def uint16(versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> Any:
    return _spec("fixed", versions, default, ignorable=ignorable, tag=tag, code="H")


def int32(versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> Any:
    return _spec("fixed", versions, default, ignorable=ignorable, tag=tag, code="i")


def int64(versions: str = "0+", *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> Any:
    return _spec("fixed", versions, default, ignorable=ignorable, tag=tag, code="q")


def float64(versions: str = "0+", *, default: float = 0.0, ignorable: bool = False, tag: int | None = None) -> Any:
    return _spec("fixed", versions, default, ignorable=ignorable, tag=tag, code="d")


def boolean(versions: str = "0+", *, default: bool = False, ignorable: bool = False, tag: int | None = None) -> Any:
    return _spec("fixed", versions, default, ignorable=ignorable, tag=tag, code="?")


def uuid(versions: str = "0+", *, ignorable: bool = False, tag: int | None = None) -> Any:
    """16 bytes; all zero means none."""
    return _spec("fixed", versions, NO_UUID, ignorable=ignorable, tag=tag, code="16s")


def string(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: str | None = "",
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    return _spec("string", versions, default, nullable=nullable, ignorable=ignorable, tag=tag)


def data(
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: bytes | None = b"",
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    """Opaque bytes, copied from the frame."""
    return _spec("bytes", versions, default, nullable=nullable, ignorable=ignorable, tag=tag)


def records(versions: str = "0+", *, nullable: str = "0+") -> Any:
    """Record batches: a view into the frame when read; one buffer or a list of them, never joined, when written."""
    return _spec("records", versions, None, nullable=nullable)


def array(
    of: FieldSpec | type[Message] | Any,
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Any = NEW_LIST,
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    """Declare an array of structs, or of a field specification such as ``int32()``."""
    return _spec("array", versions, default, nullable=nullable, ignorable=ignorable, tag=tag, of=of)


def struct(
    of: type[Message],
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: Any = NEW_LIST,
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    """Declare a struct; without ``default=None`` it has its own defaults."""
    if default is NEW_LIST and not any(spec.default is NEW_LIST for spec in of.FIELDS):
        default = of()
    return _spec("struct", versions, default, nullable=nullable, ignorable=ignorable, tag=tag, of=of)
