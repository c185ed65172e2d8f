"""Source text, errors and size limits of generated readers and writers.

The codec generates Python source for one version of one message. Every line belongs to a field, so a failure is traced
to its field (``protocols[2].name``) without cost for valid messages.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from kohort.errors import ProtocolError
from kohort.wire.schema import NEW_LIST, FieldSpec, Message


class Malformed(Exception):
    """Error inside generated code; the codec converts it to a ProtocolError."""


@dataclass(slots=True)
class CodeLine:
    """Line of generated code with its field, or with all fields that it packs."""

    text: str
    path: str
    owner: str = ""
    run: tuple[FieldSpec, ...] = ()


_functions: dict[str, list[CodeLine]] = {}


class CodeText:
    def __init__(self, name: str, signature: str, scope: dict[str, Any]) -> None:
        self.name = name
        self.lines = [CodeLine(f"def {name}({signature}):", "")]
        self.scope = scope
        self.names = 0

    def add(self, path: str, depth: int, *lines: str) -> None:
        self.lines.extend(CodeLine("    " * (depth + 1) + line, path) for line in lines)

    def new(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def bind(self, letter: str, value: Any) -> str:
        name = self.new(letter)
        self.scope[name] = value
        return name

    def compile(self) -> Any:
        filename = f"<kohort.wire {self.name} {len(_functions)}>"
        _functions[filename] = self.lines
        exec(compile("\n".join(line.text for line in self.lines), filename, "exec"), self.scope)
        return self.scope[self.name]


# ---------------------------------------------------------------- errors


def field_error(message: type[Message], error: BaseException, problem: str) -> ProtocolError:
    """Return the ProtocolError for a failure inside generated code, with the path of the failed field."""
    path = message.__name__
    trace = error.__traceback__
    while trace is not None:
        lines = _functions.get(trace.tb_frame.f_code.co_filename)
        if lines is not None:
            line = lines[trace.tb_lineno - 1]
            if line.path:
                path += "." + _culprit(line, trace.tb_frame.f_locals).format_map(trace.tb_frame.f_locals)
        trace = trace.tb_next
    return ProtocolError(problem, path)


def _culprit(line: CodeLine, names: dict[str, Any]) -> str:
    for spec in line.run:
        try:
            struct.pack(f">{spec.code}", getattr(names[line.owner], spec.name))
        except (struct.error, TypeError, AttributeError):
            return join(line.path, spec.name)
    return line.path if not line.run else join(line.path, line.run[0].name)


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# ---------------------------------------------------------------- unsigned varints


def uvarint(body: bytes | bytearray, at: int) -> tuple[int, int]:
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                raise Malformed("varint exceeds 32 bits")
            return value, at
    raise Malformed("varint exceeds five bytes")


def uvarint_bytes(value: int) -> bytes:
    """Encode ``value`` (0 to 2**32 - 1) as an unsigned varint."""
    if not 0 <= value <= 0xFFFF_FFFF:
        raise Malformed(f"{value} does not fit a varint of 32 bits")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class UvarintTable(dict[int, bytes]):
    """Cache of small unsigned varints; larger ones are computed."""

    def __missing__(self, value: int) -> bytes:
        return uvarint_bytes(value)


UVARINTS: Final = UvarintTable((value, uvarint_bytes(value)) for value in range(2048))


# ---------------------------------------------------------------- arrays of numbers


class ArrayLayouts(dict[int, struct.Struct]):
    """Struct layouts of ``count`` numbers of one type; cached for short arrays."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code

    def __missing__(self, count: int) -> struct.Struct:
        layout = struct.Struct(f">{count}{self.code}")
        if count <= KEPT_LAYOUTS:
            self[count] = layout
        return layout


KEPT_LAYOUTS: Final = 256
ARRAY_LAYOUTS: Final = {code: ArrayLayouts(code) for code in "bhHiq?"}


# ---------------------------------------------------------------- what a version holds


def plain_fields(message: type[Message], version: int, flexible: bool) -> list[FieldSpec]:
    return [f for f in message.FIELDS if version in f.versions and (f.tag is None or not flexible)]


def is_fixed_size(spec: FieldSpec) -> bool:
    return spec.kind == "fixed"


def tagged_fields(message: type[Message], version: int, flexible: bool) -> list[FieldSpec]:
    """Return the fields that this version writes as tags, ordered by tag."""
    tagged = [f for f in message.FIELDS if version in f.versions and f.tag is not None and flexible]
    return sorted(tagged, key=lambda f: f.tag or 0)


def holds_records(message: type[Message]) -> bool:
    return any(f.kind == "records" or (isinstance(f.of, type) and holds_records(f.of)) for f in message.FIELDS)


def smallest(spec: FieldSpec, version: int, flexible: bool) -> int:
    """Return the smallest size in bytes of a value of ``spec``."""
    if spec.kind == "fixed":
        return struct.calcsize(f">{spec.code}")
    if spec.kind == "struct":
        assert isinstance(spec.of, type)
        return 1 if version in spec.nullable else smallest_struct(spec.of, version, flexible)
    if flexible:
        return 1
    return 2 if spec.kind == "string" else 4


def smallest_struct(message: type[Message], version: int, flexible: bool) -> int:
    """Return the smallest size in bytes of a struct, with its tagged fields."""
    return sum(smallest(f, version, flexible) for f in plain_fields(message, version, flexible)) + flexible


def smallest_element(spec: FieldSpec, version: int, flexible: bool) -> int:
    """Return the smallest size in bytes of an element of the array ``spec``."""
    if isinstance(spec.of, type):
        return smallest_struct(spec.of, version, flexible)
    assert spec.of is not None
    return smallest(spec.of, version, flexible)


def default_of(spec: FieldSpec) -> Any:
    """Return a field's default; a new object if it is mutable."""
    if spec.default is not NEW_LIST:
        return spec.default
    if spec.kind == "struct":
        assert isinstance(spec.of, type)
        return spec.of()
    return []
