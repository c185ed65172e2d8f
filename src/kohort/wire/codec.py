"""Compile the reader and the writer of one version of one message, with bounds.

``decode`` and ``encode`` generate Python source for (message, version) on first use and keep what it compiles to. A
reader checks every count and length against the bytes that remain (a count times the smallest possible element)
before it allocates, and raises one kind of error, ``ProtocolError``, with the field's path. The path costs nothing
until it is needed: each generated line belongs to one field, so the traceback of a failure names it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kohort.errors import ProtocolError, UnsupportedVersion
from kohort.wire.schema import NEW_LIST, FieldSpec, Message

M = TypeVar("M", bound=Message)
Buffer = bytes | bytearray | memoryview
Records = Buffer | list[Buffer]
"""Record batches as they travel: a view when read; one buffer, or several that are never joined, when written."""
Reader = Callable[[bytes, int, int], tuple[Any, int]]
Writer = Callable[[Any, Callable[[Any], None]], None]

_readers: dict[tuple[type[Message], int, bool], Reader] = {}
_writers: dict[tuple[type[Message], int, bool], Writer] = {}
_sources: dict[str, list[str]] = {}
JOIN_LIMIT = 4096
"""Buffers up to this many bytes are joined with their neighbours; larger ones are sent as they are."""


class Malformed(Exception):
    """Raised inside generated readers; leaves this file only as a ProtocolError."""


def decode(message: type[M], version: int, body: bytes, start: int = 0) -> tuple[M, int]:
    """Read one message from ``body[start:]``; returns it and where it ended.

    Raises ProtocolError, with the path of the field, for anything that is not such a message; UnsupportedVersion for
    a version that the message does not have.
    """
    key = (message, version, version in message.FLEXIBLE)
    read = _readers.get(key)
    if read is None:
        check_version(message, version)
        read = reader_of(*key)
    try:
        value: tuple[M, int] = read(body, start, len(body))
    except (struct.error, IndexError) as error:
        raise ProtocolError("the bytes end before the field does", path_of(message, error)) from None
    except (Malformed, UnicodeDecodeError) as error:
        raise ProtocolError(str(error), path_of(message, error)) from None
    return value


def encode(message: Message, version: int) -> list[Buffer]:
    """The bytes of ``message`` at ``version``, as buffers in order; record batches are passed through as they are.

    Raises ProtocolError where a field that this version lacks is set and may not be dropped, or does not fit.
    """
    cls = type(message)
    key = (cls, version, version in cls.FLEXIBLE)
    write = _writers.get(key)
    if write is None:
        check_version(cls, version)
        write = writer_of(*key)
    parts: list[Buffer] = []
    try:
        write(message, parts.append)
    except (struct.error, TypeError, AttributeError, Malformed) as error:
        raise ProtocolError(f"cannot be written at version {version}: {error}", path_of(cls, error)) from error
    return coalesce(parts)


def encode_bytes(message: Message, version: int) -> bytes:
    """``encode``, joined."""
    return b"".join(encode(message, version))


def coalesce(parts: Sequence[Buffer]) -> list[Buffer]:
    """Join neighbouring small buffers, leave large ones alone."""
    joined: list[Buffer] = []
    small: list[Buffer] = []
    for part in parts:
        if len(part) > JOIN_LIMIT:
            if small:
                joined.append(b"".join(small))
                small = []
            joined.append(part)
        else:
            small.append(part)
    if small:
        joined.append(b"".join(small))
    return joined


def check_version(message: type[Message], version: int) -> None:
    if version not in message.VERSIONS:
        low, high = message.VERSIONS
        raise UnsupportedVersion(f"{message.__name__} has versions {low} to {high}, not {version}")


def path_of(message: type[Message], error: BaseException) -> str:
    """The field at which generated code failed, as in ``JoinGroupRequest.protocols[2].name``."""
    path = message.__name__
    trace = error.__traceback__
    while trace is not None:
        lines = _sources.get(trace.tb_frame.f_code.co_filename)
        if lines is not None and trace.tb_lineno <= len(lines):
            _, _, name = lines[trace.tb_lineno - 1].partition("  # ")
            if name:
                path += f".{name}"
            index = trace.tb_frame.f_locals.get(f"i_{name}")
            if isinstance(index, int):
                path += f"[{index}]"
        trace = trace.tb_next
    return path


def uvarint(body: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits; returns it and where it ended."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise Malformed("a varint of more than 32 bits")
            return value, at
    raise Malformed("a varint of more than five bytes")


def uvarint_bytes(value: int) -> bytes:
    """``value`` (0 to 2**32 - 1) as an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Source:
    """The text of one generated function: each line is tagged with the field that it serves."""

    def __init__(self, name: str, signature: str) -> None:
        self.name = name
        self.lines = [f"def {name}({signature}):"]
        self.scope: dict[str, Any] = {
            "Malformed": Malformed,
            "uvarint": uvarint,
            "uvb": uvarint_bytes,
            "unpack_from": struct.unpack_from,
            "pack": struct.pack,
            "memoryview": memoryview,
        }

    def add(self, field: str, indent: int, *lines: str) -> None:
        pad = "    " * (indent + 1)
        self.lines.extend(f"{pad}{line}  # {field}" for line in lines)

    def compile(self) -> Any:
        filename = f"<kohort {self.name}>"
        _sources[filename] = self.lines
        exec(compile("\n".join(self.lines), filename, "exec"), self.scope)
        return self.scope[self.name]


# ---------------------------------------------------------------- smallest sizes


def smallest(spec: FieldSpec, version: int, flexible: bool) -> int:
    """The fewest bytes that a value of ``spec`` can take."""
    if spec.kind == "fixed":
        return struct.calcsize(f">{spec.code}")
    if spec.kind == "struct":
        assert isinstance(spec.of, type)
        return 1 if version in spec.nullable else smallest_struct(spec.of, version, flexible)
    if flexible and not spec.never_flexible:
        return 1
    return 2 if spec.kind == "string" else 4


def smallest_struct(message: type[Message], version: int, flexible: bool) -> int:
    present = (f for f in message.FIELDS if version in f.versions and f.tag is None)
    return sum(smallest(f, version, flexible) for f in present) + flexible


def plain_fields(message: type[Message], version: int, flexible: bool) -> list[FieldSpec]:
    return [f for f in message.FIELDS if version in f.versions and (f.tag is None or not flexible)]


def tagged_fields(message: type[Message], version: int) -> list[FieldSpec]:
    tagged = [f for f in message.FIELDS if version in f.versions and f.tag is not None]
    return sorted(tagged, key=lambda f: f.tag or 0)


# ---------------------------------------------------------------- readers


def reader_of(message: type[Message], version: int, flexible: bool) -> Reader:
    """The compiled reader of a struct: ``read(body, at, end) -> (value, at)``."""
    key = (message, version, flexible)
    if key in _readers:
        return _readers[key]
    src = Source(f"read_{message.__name__}_v{version}", "b, p, n")
    src.scope["cls"] = message
    src.scope["new"] = object.__new__
    src.add("", 0, "m = new(cls)")
    run: list[FieldSpec] = []
    for spec in plain_fields(message, version, flexible):
        if spec.kind == "fixed":
            run.append(spec)
            continue
        _read_run(src, run)
        run = []
        _read_value(src, 0, spec, f"m.{spec.name}", version, flexible)
    _read_run(src, run)
    tagged = tagged_fields(message, version) if flexible else []
    for spec in message.FIELDS:
        if version not in spec.versions or spec in tagged:
            src.add(spec.name, 0, f"m.{spec.name} = {_default(src, spec)}")
    if flexible:
        _read_tags(src, tagged, version)
    src.add("", 0, "return m, p")
    _readers[key] = read = src.compile()
    return read  # type: ignore[no-any-return]


def _default(src: Source, spec: FieldSpec) -> str:
    if spec.default is NEW_LIST:
        if spec.kind == "array":
            return "[]"
        src.scope[f"cls_{spec.name}"] = spec.of
        return f"cls_{spec.name}()"
    src.scope[f"default_{spec.name}"] = spec.default
    return f"default_{spec.name}"


def _read_run(src: Source, run: list[FieldSpec]) -> None:
    """Neighbouring fixed-size fields in one unpack."""
    if not run:
        return
    code = ">" + "".join(f.code for f in run)
    unpack = struct.Struct(code)
    src.scope[f"u_{run[0].name}"] = unpack.unpack_from
    targets = ", ".join(f"m.{f.name}" for f in run)
    src.add(run[0].name, 0, f"{targets}{',' if len(run) == 1 else ''} = u_{run[0].name}(b, p)")
    src.add(run[-1].name, 0, f"p += {unpack.size}")


def _read_length(src: Source, d: int, spec: FieldSpec, version: int, flexible: bool) -> None:
    """Set ``l`` to the length or count (-1 for null, which is refused where the version has none)."""
    if flexible and not spec.never_flexible:
        src.add(spec.name, d, "l = b[p]; p += 1")
        src.add(spec.name, d, "if l > 127: l, p = uvarint(b, p - 1)")
        src.add(spec.name, d, "l -= 1")
    elif spec.kind == "string":
        src.add(spec.name, d, "l = unpack_from('>h', b, p)[0]; p += 2")
    else:
        src.add(spec.name, d, "l = unpack_from('>i', b, p)[0]; p += 4")
    floor = -1 if version in spec.nullable else 0
    src.add(spec.name, d, f"if l < {floor}: raise Malformed('null or a negative length, %d' % l)")


def _read_value(src: Source, d: int, spec: FieldSpec, target: str, version: int, flexible: bool) -> None:
    name = spec.name
    if spec.kind == "fixed":
        src.add(name, d, f"{target} = unpack_from('>{spec.code}', b, p)[0]")
        src.add(name, d, f"p += {struct.calcsize('>' + spec.code)}")
        return
    if spec.kind == "struct":
        _read_struct(src, d, spec, target, version, flexible)
        return
    _read_length(src, d, spec, version, flexible)
    if version in spec.nullable:
        src.add(name, d, f"if l < 0: {target} = None", "else:")
        d += 1
    if spec.kind == "array":
        _read_array(src, d, spec, target, version, flexible)
        return
    src.add(name, d, "if l > n - p: raise Malformed('a length of %d with %d bytes left' % (l, n - p))")
    get = {"string": "b[p:p + l].decode()", "bytes": "b[p:p + l]", "records": "memoryview(b)[p:p + l]"}[spec.kind]
    src.add(name, d, f"{target} = {get}", "p += l")


def _read_struct(src: Source, d: int, spec: FieldSpec, target: str, version: int, flexible: bool) -> None:
    assert isinstance(spec.of, type)
    src.scope[f"r_{spec.name}"] = reader_of(spec.of, version, flexible)
    if version in spec.nullable:
        src.add(spec.name, d, "p += 1", f"if b[p - 1] > 127: {target} = None", "else:")
        d += 1
    src.add(spec.name, d, f"{target}, p = r_{spec.name}(b, p, n)")


def _read_array(src: Source, d: int, spec: FieldSpec, target: str, version: int, flexible: bool) -> None:
    name, of = spec.name, spec.of
    element = smallest_struct(of, version, flexible) if isinstance(of, type) else smallest(of, version, flexible)  # type: ignore[arg-type]
    src.add(
        name,
        d,
        f"if l > (n - p) // {max(element, 1)}: raise Malformed('a count of %d with %d bytes left' % (l, n - p))",
    )
    if isinstance(of, FieldSpec) and of.kind == "fixed":
        src.add(
            name,
            d,
            f"{target} = list(unpack_from('>' + '{of.code}' * l if {len(of.code) > 1} else '>%d{of.code}' % l, b, p))",
        )
        src.add(name, d, f"p += l * {element}")
        return
    src.add(name, d, "a = []")
    src.add(name, d, f"for i_{name} in range(l):")
    if isinstance(of, type):
        src.scope[f"r_{name}"] = reader_of(of, version, flexible)
        src.add(name, d + 1, f"v, p = r_{name}(b, p, n)")
    else:
        assert isinstance(of, FieldSpec)
        of.name = name
        _read_value(src, d + 1, of, "v", version, flexible)
    src.add(name, d + 1, "a.append(v)")
    src.add(name, d, f"i_{name} = None")
    src.add(name, d, f"{target} = a")


def _read_tags(src: Source, tagged: list[FieldSpec], version: int) -> None:
    src.add("tags", 0, "t = b[p]; p += 1", "if t > 127: t, p = uvarint(b, p - 1)")
    src.add("tags", 0, "while t:")
    src.add("tags", 1, "t -= 1", "g, p = uvarint(b, p)", "s, p = uvarint(b, p)")
    src.add("tags", 1, "if s > n - p: raise Malformed('a tag of %d bytes with %d left' % (s, n - p))")
    src.add("tags", 1, "z = p + s")
    for i, spec in enumerate(tagged):
        src.add(spec.name, 1, f"{'if' if i == 0 else 'elif'} g == {spec.tag}:")
        _read_value(src, 2, spec, f"m.{spec.name}", version, True)
        src.add(spec.name, 2, "if p != z: raise Malformed('the tag is %d bytes longer than its field' % (z - p))")
    src.add("tags", 1, "p = z")


# ---------------------------------------------------------------- writers


def writer_of(message: type[Message], version: int, flexible: bool) -> Writer:
    """The compiled writer of a struct: ``write(value, append)``."""
    key = (message, version, flexible)
    if key in _writers:
        return _writers[key]
    src = Source(f"write_{message.__name__}_v{version}", "m, w")
    run: list[FieldSpec] = []
    for spec in plain_fields(message, version, flexible):
        if spec.kind == "fixed":
            run.append(spec)
            continue
        _write_run(src, run)
        run = []
        _write_value(src, 0, spec, f"m.{spec.name}", version, flexible)
    _write_run(src, run)
    for spec in message.FIELDS:
        if version not in spec.versions and not spec.ignorable:
            what = f"set, but version {version} has no such field"
            src.add(spec.name, 0, f"if m.{spec.name} != {_default(src, spec)}: raise Malformed('{what}')")
    if flexible:
        _write_tags(src, tagged_fields(message, version), version)
    src.add("", 0, "return")
    _writers[key] = write = src.compile()
    return write  # type: ignore[no-any-return]


def _write_run(src: Source, run: list[FieldSpec]) -> None:
    if not run:
        return
    src.scope[f"p_{run[0].name}"] = struct.Struct(">" + "".join(f.code for f in run)).pack
    src.add(run[0].name, 0, f"w(p_{run[0].name}({', '.join(f'm.{f.name}' for f in run)}))")


def _length(spec: FieldSpec, flexible: bool, length: str) -> str:
    """An expression for the bytes of a length or count; ``length`` is an expression, -1 for null."""
    if flexible and not spec.never_flexible:
        return f"uvb({length} + 1)"
    return f"pack('>{'h' if spec.kind == 'string' else 'i'}', {length})"


def _write_value(src: Source, d: int, spec: FieldSpec, source: str, version: int, flexible: bool) -> None:
    name = spec.name
    if spec.kind == "fixed":
        src.add(name, d, f"w(pack('>{spec.code}', {source}))")
        return
    src.add(name, d, f"x = {source}")
    if version in spec.nullable:
        null = "b'\\xff'" if spec.kind == "struct" else _length(spec, flexible, "-1")
        src.add(name, d, f"if x is None: w({null})", "else:")
        d += 1
    else:
        src.add(name, d, f"if x is None: raise Malformed('null, which version {version} does not allow')")
    if spec.kind == "struct":
        assert isinstance(spec.of, type)
        src.scope[f"w_{name}"] = writer_of(spec.of, version, flexible)
        if version in spec.nullable:
            src.add(name, d, "w(b'\\x01')")
        src.add(name, d, f"w_{name}(x, w)")
    elif spec.kind == "string":
        src.add(name, d, "x = x.encode()", f"w({_length(spec, flexible, 'len(x)')})", "w(x)")
    elif spec.kind == "bytes":
        src.add(name, d, f"w({_length(spec, flexible, 'len(x)')})", "w(x)")
    elif spec.kind == "records":
        src.add(name, d, "if type(x) is list:")
        src.add(name, d + 1, f"w({_length(spec, flexible, 'sum(map(len, x))')})", "for y in x: w(y)")
        src.add(name, d, "else:")
        src.add(name, d + 1, f"w({_length(spec, flexible, 'len(x)')})", "w(x)")
    else:
        _write_array(src, d, spec, version, flexible)


def _write_array(src: Source, d: int, spec: FieldSpec, version: int, flexible: bool) -> None:
    name, of = spec.name, spec.of
    src.add(name, d, f"w({_length(spec, flexible, 'len(x)')})")
    if isinstance(of, FieldSpec) and of.kind == "fixed":
        src.add(name, d, f"w(pack('>' + '{of.code}' * len(x), *x))")
        return
    src.add(name, d, f"a_{name} = x", f"for i_{name} in range(len(a_{name})):")
    if isinstance(of, type):
        src.scope[f"w_{name}"] = writer_of(of, version, flexible)
        src.add(name, d + 1, f"w_{name}(a_{name}[i_{name}], w)")
    else:
        assert isinstance(of, FieldSpec)
        of.name = name
        _write_value(src, d + 1, of, f"a_{name}[i_{name}]", version, flexible)
    src.add(name, d, f"i_{name} = None")


def _write_tags(src: Source, tagged: list[FieldSpec], version: int) -> None:
    """Tagged fields that differ from their default, ascending by tag."""
    if not tagged:
        src.add("tags", 0, "w(b'\\0')")
        return
    src.add("tags", 0, "o = w", "g = []")
    for spec in tagged:
        src.add(spec.name, 0, f"if m.{spec.name} != {_default(src, spec)}:")
        src.add(spec.name, 1, "t = []", "w = t.append")
        _write_value(src, 1, spec, f"m.{spec.name}", version, True)
        src.add(spec.name, 1, "s = b''.join(t)", f"g.append(uvb({spec.tag}) + uvb(len(s)) + s)")
    src.add("tags", 0, "o(uvb(len(g)))", "for s in g: o(s)")
