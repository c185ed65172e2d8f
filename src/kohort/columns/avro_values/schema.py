"""Parse Avro schemas (Avro 1.12), with limits on size and depth.

Named types become shared objects. Recursive records are rejected, because a column cannot have their type.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

TEXT_MOST: Final = 1 << 20
"""Limit on the text of a schema, in characters."""
DEPTH_MOST: Final = 64
TOO_DEEP: Final = f"the Avro schema is nested more than {DEPTH_MOST} levels deep"
LEAST_BYTES: Final = {
    "null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1,
}  # fmt: skip
"""Primitive types, and the smallest size of their values in bytes."""
NAMED: Final = frozenset(("record", "error", "enum", "fixed"))
LOGICAL: Final = frozenset(
    [
        ("int", "date"),
        ("int", "time-millis"),
        ("long", "time-micros"),
        *(("long", f"{family}-{unit}") for family in ("timestamp", "local-timestamp") for unit in ("millis", "micros")),
        ("long", "timestamp-nanos"),
        ("long", "local-timestamp-nanos"),
    ]
)
"""Logical types of numbers; ``decimal`` and ``uuid`` have conditions. Other logical types are ignored."""
DIGITS_MOST: Final = 76
"""Most digits of an Arrow decimal."""
UUID_BYTES: Final = 16
NO_DEFAULT: Final = object()
TEXT: Final = "text"
"""Logical type of a reader's string that also reads symbols of enums and UUIDs; no schema in JSON has it."""


class AvroProblem(ValueError):
    """An invalid or unsupported schema, or two schemas that do not match; the message is one line."""


class Type:
    """Avro type.

    ``least``: smallest size of a value in bytes; ``depth``: number of types around one another inside this type,
    through named types too; ``name``: full name of a named type.
    """

    __slots__ = (
        *("kind", "name", "aliases", "logical", "precision", "scale"),
        *("fields", "symbols", "default", "size", "items", "branches", "least", "depth"),
    )

    def __init__(self, kind: str, *, name: str = "", aliases: frozenset[str] = frozenset(), least: int = 1) -> None:
        self.kind = kind
        self.name = name
        self.aliases = aliases
        self.least = least
        self.logical = ""
        self.precision = self.scale = self.size = self.depth = 0
        self.fields: tuple[Field, ...] = ()
        self.symbols: tuple[str, ...] = ()
        self.default: str | None = None
        self.items: Type | None = None
        self.branches: tuple[Type, ...] = ()

    def __str__(self) -> str:
        text = self.name or self.kind
        return f"{text} ({self.logical})" if self.logical else text


class Field:
    """Field of a record. ``default``: value in JSON, or NO_DEFAULT; ``encoded``: the default in Avro, once needed."""

    __slots__ = ("aliases", "default", "encoded", "name", "type")

    def __init__(self, name: str, kind: Type, default: Any = NO_DEFAULT, aliases: frozenset[str] = frozenset()) -> None:
        self.name = name
        self.type = kind
        self.default = default
        self.aliases = aliases
        self.encoded: bytes | None = None


def parse_schema(text: str, named: Mapping[str, str] | None = None) -> Type:
    """Return the type of a schema in JSON. ``named``: texts of referenced schemas. Raises AvroProblem."""
    return _Parser(named or {}).parse(_parsed(text), "", 0)


def _parsed(text: str) -> Any:
    if not isinstance(text, str):
        raise AvroProblem(f"an Avro schema is JSON text, not {type(text).__name__}")
    if len(text) > TEXT_MOST:
        raise AvroProblem(f"the Avro schema has {len(text)} characters, more than {TEXT_MOST}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.strip() in LEAST_BYTES:  # Java's registry sends the name of a primitive type without quotes
            return text.strip()
        raise AvroProblem(f"the Avro schema is not JSON: {error}") from None


class _Parser:
    def __init__(self, references: Mapping[str, str]) -> None:
        self._references = dict(references)
        self._named: dict[str, Type] = {}
        self._open: set[str] = set()

    def parse(self, given: Any, space: str, depth: int) -> Type:
        if depth > DEPTH_MOST:
            raise AvroProblem(TOO_DEEP)
        if isinstance(given, str):
            return self._reference(given, space, depth)
        if isinstance(given, list):
            return self._union(given, space, depth)
        if not isinstance(given, dict) or "type" not in given:
            raise AvroProblem(f"expected an Avro type, found {_shown(given)}")
        kind = given["type"]
        if isinstance(kind, str) and kind in NAMED:
            return self._definition(given, space, depth)
        if kind in ("array", "map"):
            made = Type(kind)
            made.items = self.parse(_inside(given, "items" if kind == "array" else "values"), space, depth + 1)
            return _around(made, [made.items])
        inner = self.parse(kind, space, depth + 1)
        return _with_logical(inner, given) if isinstance(kind, str) and kind in LEAST_BYTES else inner

    def _reference(self, name: str, space: str, depth: int) -> Type:
        if name in LEAST_BYTES:
            return Type(name, least=LEAST_BYTES[name])
        full = _full_name(name, space)
        known = full if full in self._named or full in self._open else name
        if known in self._open:
            raise AvroProblem(f"record {known!r} contains itself: a column cannot have a recursive type")
        if known in self._named:
            return self._named[known]
        for referenced in (full, name, *self._references):  # each schema may define types of other names, too
            if referenced in self._references:
                found = self.parse(_parsed(self._references.pop(referenced)), "", depth + 1)
                self._named.setdefault(referenced, found)
            if full in self._named or name in self._named:
                return self._named.get(full) or self._named[name]
        raise AvroProblem(f"unknown Avro type {name!r}")

    def _union(self, given: list[Any], space: str, depth: int) -> Type:
        made = Type("union")
        made.branches = tuple(self.parse(branch, space, depth + 1) for branch in given)
        if not made.branches or any(branch.kind == "union" for branch in made.branches):
            raise AvroProblem(f"a union needs branches that are not unions, found {_shown(given)}")
        made.least = 1 + min(branch.least for branch in made.branches)
        return _around(made, made.branches)

    def _definition(self, given: Mapping[str, Any], space: str, depth: int) -> Type:
        name = _text(_inside(given, "name"), "name")
        namespace = given.get("namespace")
        space = name.rpartition(".")[0] or (namespace if isinstance(namespace, str) else space)
        full = _full_name(name, space)
        aliases = frozenset(_full_name(alias, space) for alias in _texts(given.get("aliases", []), "aliases"))
        kind = "record" if given["type"] == "error" else given["type"]
        made = Type(kind, name=full, aliases=aliases)
        if kind == "enum":
            made.symbols = tuple(_texts(_inside(given, "symbols"), "symbols"))
            default = given.get("default")
            made.default = default if default in made.symbols else None
        elif kind == "fixed":
            made.size = made.least = _whole(_inside(given, "size"), "size")
            made = _with_logical(made, given)
        else:
            self._open.add(full)
            made.fields = self._fields(_inside(given, "fields"), full, space, depth)
            made.least = sum(field.type.least for field in made.fields)
            _around(made, [field.type for field in made.fields])
            self._open.discard(full)
        self._named[full] = made
        return made

    def _fields(self, given: Any, record: str, space: str, depth: int) -> tuple[Field, ...]:
        if not isinstance(given, list):
            raise AvroProblem(f"the fields of record {record!r} are not a list")
        made: dict[str, Field] = {}
        for entry in given:
            name = _text(_inside(entry, "name"), "name")
            if name in made:
                raise AvroProblem(f"record {record!r} has two fields {name!r}")
            kind = self.parse(_inside(entry, "type"), space, depth + 1)
            aliases = frozenset(_texts(entry.get("aliases", []), "aliases"))
            made[name] = Field(name, kind, entry.get("default", NO_DEFAULT), aliases)
        return tuple(made.values())


def _around(made: Type, inner: Iterable[Type]) -> Type:
    """Return the type with the depth of the types inside. Raises AvroProblem: the kernel's stack has a fixed size."""
    made.depth = 1 + max((kind.depth for kind in inner), default=0)
    if made.depth > DEPTH_MOST:
        raise AvroProblem(TOO_DEEP)
    return made


def _with_logical(kind: Type, given: Mapping[str, Any]) -> Type:
    """Return the type with its logical type; an unknown or invalid logical type is ignored, as in the specification."""
    logical = given.get("logicalType")
    if not isinstance(logical, str):
        return kind
    if logical == "decimal" and kind.kind in ("bytes", "fixed"):
        precision, scale = given.get("precision"), given.get("scale", 0)
        if type(precision) is not int or type(scale) is not int:
            return kind
        if 0 < precision <= DIGITS_MOST and 0 <= scale <= precision:
            kind.logical, kind.precision, kind.scale = logical, precision, scale
    elif (kind.kind, logical) in LOGICAL or (logical == "uuid" and kind.size == UUID_BYTES):
        kind.logical = logical
    return kind


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _inside(given: Any, key: str) -> Any:
    if not isinstance(given, dict) or key not in given:
        raise AvroProblem(f"expected the key {key!r} in {_shown(given)}")
    return given[key]


def _text(found: Any, key: str) -> str:
    if not isinstance(found, str) or not found:
        raise AvroProblem(f"expected text as {key!r}, found {_shown(found)}")
    return found


def _texts(found: Any, key: str) -> list[str]:
    if not isinstance(found, list):
        raise AvroProblem(f"expected a list as {key!r}, found {_shown(found)}")
    return [_text(one, key) for one in found]


def _whole(found: Any, key: str) -> int:
    if type(found) is not int or not 0 <= found <= TEXT_MOST:
        raise AvroProblem(f"expected a number from 0 to {TEXT_MOST} as {key!r}, found {_shown(found)}")
    return found


def _shown(given: Any) -> str:
    return json.dumps(given)[:80]
