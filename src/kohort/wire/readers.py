"""Generate the reader of one version of one message: ``read(b, p, n) -> (message, end)``.

In the generated code ``b`` is the body, ``p`` the position, ``n`` the end. Before a reader allocates memory, it checks
each length against the remaining bytes, and each count against the smallest size of that many elements. It also
enforces Kafka's limits of array elements and tagged fields.

A reader in steps is a generator: it yields between elements, and limits the number of elements of all arrays together.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import groupby
from typing import Any, Final

from kohort.steps import Steps
from kohort.wire.codec_text import (
    ARRAY_LAYOUTS,
    CodeText,
    Malformed,
    is_fixed_size,
    join,
    plain_fields,
    smallest_element,
    tagged_fields,
    uvarint,
)
from kohort.wire.schema import NEW_LIST, STRING_MAX, FieldSpec, Message

Reader = Callable[[bytes | bytearray, int, int], tuple[Any, int]]
StepReader = Callable[[bytes | bytearray, int, int], Steps[tuple[Any, int]]]

ELEMENTS_MAX: Final = 1_000_000
"""Limit of elements per array, as in Kafka since 4.4."""
REQUEST_ELEMENTS_MAX: Final = 100_000
"""Limit of the elements of all arrays of a message that is read in steps: 100,000 decoded names take 40 MB."""
NUMBERS_AT_ONCE: Final = 50_000
COPIED_AT_ONCE: Final = 4 << 20
"""Size limit in bytes of a bytes field that is copied at once; a larger field is copied in steps to a bytearray."""
TAGS_MAX: Final = 10_000
"""Limit of tagged fields per struct, as in Kafka since 4.4."""
STEP_ELEMENTS: Final = 4_000
"""Number of elements per step, which takes a few milliseconds."""


def compile_reader(message: type[Message], version: int) -> Reader:
    return _ReaderSource(message, version).compile()  # type: ignore[no-any-return]  # what exec made


def compile_step_reader(message: type[Message], version: int) -> StepReader:
    return _ReaderSource(message, version, in_steps=True).compile()  # type: ignore[no-any-return]  # what exec made


def _short(kind: str, length: int, left: int) -> Malformed:
    if length < 0:
        return Malformed(f"null, or a negative {kind} ({length})")
    return Malformed(f"a {kind} of {length} with {left} bytes left")


def _crowded(kind: str, count: int, most: int) -> Malformed:
    return Malformed(f"{count} {kind}, more than the {most} accepted")


_SCOPE: Final = {
    "Malformed": Malformed,
    "uvarint": uvarint,
    "short": _short,
    "crowded": _crowded,
    "int16": struct.Struct(">h").unpack_from,
    "int32": struct.Struct(">i").unpack_from,
    "new": object.__new__,
}
"""Names that the generated code uses."""


class _ReaderSource(CodeText):
    def __init__(self, message: type[Message], version: int, *, in_steps: bool = False) -> None:
        super().__init__(f"read_{message.__name__}_v{version}", "b, p, n", dict(_SCOPE))
        self.version = version
        self.flexible = version in message.FLEXIBLE
        self.in_steps = in_steps
        if in_steps:
            self.add("", 0, "elements = 0", f"left = {2 * STEP_ELEMENTS}", "if p > n: yield")
        self.struct(0, message, "m", "")
        self.add("", 0, "return m, p")

    def struct(self, depth: int, message: type[Message], target: str, path: str) -> None:
        self.add(path, depth, f"{target} = new({self.bind('C', message)})")
        for is_fixed, specs in groupby(plain_fields(message, self.version, self.flexible), is_fixed_size):
            if is_fixed:
                self.run(depth, list(specs), target, path)
            else:
                for spec in specs:
                    self.value(depth, spec, f"{target}.{spec.name}", join(path, spec.name))
        tagged = tagged_fields(message, self.version, self.flexible)
        for spec in message.FIELDS:
            if self.version not in spec.versions or spec in tagged:
                self.default(depth, spec, f"{target}.{spec.name}", join(path, spec.name))
        if self.flexible:
            self.tags(depth, tagged, target, path)

    def default(self, depth: int, spec: FieldSpec, target: str, path: str) -> None:
        if spec.default is not NEW_LIST:
            self.add(path, depth, f"{target} = {self.bind('D', spec.default)}")
        elif spec.kind == "struct":
            self.add(path, depth, f"{target} = {self.bind('C', spec.of)}()")
        else:
            self.add(path, depth, f"{target} = []")

    def run(self, depth: int, run: list[FieldSpec], target: str, path: str) -> None:
        """Unpack neighbouring fields of fixed size at once."""
        layout = struct.Struct(">" + "".join(spec.code for spec in run))
        names = ", ".join(f"{target}.{spec.name}" for spec in run)
        first = join(path, run[0].name)
        self.add(first, depth, f"{names}{',' if len(run) == 1 else ''} = {self.bind('U', layout.unpack_from)}(b, p)")
        self.add(first, depth, f"p += {layout.size}")

    def value(self, depth: int, spec: FieldSpec, target: str, path: str) -> None:
        if spec.kind == "fixed":
            layout = struct.Struct(f">{spec.code}")
            self.add(path, depth, f"({target},) = {self.bind('U', layout.unpack_from)}(b, p)", f"p += {layout.size}")
        elif spec.kind == "struct":
            self.nested(depth, spec, target, path)
        elif spec.kind == "array":
            self.array(depth, spec, target, path)
        else:
            self.sized(depth, spec, target, path)

    def length(self, depth: int, spec: FieldSpec, path: str) -> None:
        if self.flexible:
            self.add(path, depth, "l = b[p] - 1", "if l > 126:", "    l, p = uvarint(b, p)", "    l -= 1")
            if spec.kind == "string":
                self.add(path, depth, f"    if {STRING_MAX} < l <= n - p: raise Malformed('a string of %d bytes' % l)")
            self.add(path, depth, "else: p += 1")
        elif spec.kind == "string":
            self.add(path, depth, "(l,) = int16(b, p)", "p += 2")
        else:
            self.add(path, depth, "(l,) = int32(b, p)", "p += 4")

    def null(self, depth: int, spec: FieldSpec, target: str, path: str) -> int:
        """Read a null if the version allows one; return the indentation of the code for other values."""
        if self.version not in spec.nullable:
            return depth
        self.add(path, depth, f"if l == -1: {target} = None", "else:")
        return depth + 1

    def sized(self, depth: int, spec: FieldSpec, target: str, path: str) -> None:
        self.length(depth, spec, path)
        depth = self.null(depth, spec, target, path)
        self.add(path, depth, "e = p + l", "if e < p or e > n: raise short('length', l, n - p)")
        if spec.kind == "bytes" and self.in_steps:
            gathered = self.new("x")
            self.add(path, depth, f"if l > {COPIED_AT_ONCE}:", f"    {gathered} = bytearray()")
            self.add(path, depth, "    while p < e:")
            self.add(path, depth, f"        {gathered} += memoryview(b)[p : min(p + {COPIED_AT_ONCE}, e)]")
            self.add(path, depth, f"        p += {COPIED_AT_ONCE}", "        yield")
            self.add(path, depth, f"    {target} = {gathered}", f"else: {target} = bytes(memoryview(b)[p:e])", "p = e")
            return
        taken = {"string": "b[p:e].decode()", "bytes": "b[p:e]", "records": "memoryview(b)[p:e]"}[spec.kind]
        self.add(path, depth, f"{target} = {taken}", "p = e")

    def nested(self, depth: int, spec: FieldSpec, target: str, path: str) -> None:
        assert isinstance(spec.of, type)
        if self.version in spec.nullable:
            null = "== 0" if spec.tag is not None else "> 127"  # the null marker of a tagged struct is a varint
            self.add(path, depth, "p += 1", f"if b[p - 1] {null}: {target} = None", "else:")
            depth += 1
        inner = self.new("m")
        self.struct(depth, spec.of, inner, path)
        self.add(path, depth, f"{target} = {inner}")

    def array(self, depth: int, spec: FieldSpec, target: str, path: str) -> None:
        element = smallest_element(spec, self.version, self.flexible)
        self.length(depth, spec, path)
        depth = self.null(depth, spec, target, path)
        self.add(path, depth, f"if l < 0 or l > (n - p) // {max(element, 1)}: raise short('count', l, n - p)")
        if self.in_steps:
            most = REQUEST_ELEMENTS_MAX
            self.add(path, depth, "elements += l")
            self.add(path, depth, f"if elements > {most}: raise crowded('elements', elements, {most})")
        else:
            self.add(path, depth, f"if l > {ELEMENTS_MAX}: raise crowded('elements', l, {ELEMENTS_MAX})")
        if isinstance(spec.of, FieldSpec) and spec.of.code in ARRAY_LAYOUTS:
            layouts = self.bind("L", ARRAY_LAYOUTS[spec.of.code])
            if self.in_steps:
                items, step = self.new("a"), NUMBERS_AT_ONCE
                self.add(path, depth, f"{items} = []", f"while l > {step}:")
                self.add(path, depth, f"    {items} += {layouts}[{step}].unpack_from(b, p)")
                self.add(path, depth, f"    p += {step * element}", f"    l -= {step}", "    yield")
                self.add(path, depth, f"{items} += {layouts}[l].unpack_from(b, p)", f"{target} = {items}")
                self.add(path, depth, f"p += l * {element}", "left -= l >> 4")
            else:
                self.add(path, depth, f"{target} = list({layouts}[l].unpack_from(b, p))", f"p += l * {element}")
            return
        items, index, item = self.new("a"), self.new("i"), self.new("m")
        self.add(path, depth, f"{items} = []", f"for {index} in range(l):")
        at = f"{path}[{{{index}}}]"
        if isinstance(spec.of, type):
            self.struct(depth + 1, spec.of, item, at)
        else:
            assert spec.of is not None
            self.value(depth + 1, spec.of, item, at)
        self.add(path, depth, f"    {items}.append({item})")
        if self.in_steps:
            self.add(path, depth + 1, "left -= 1", f"if left < 0: left = {STEP_ELEMENTS}; yield")
        self.add(path, depth, f"{target} = {items}")

    def tags(self, depth: int, tagged: list[FieldSpec], target: str, path: str) -> None:
        """Read the tagged fields; skip unknown tags."""
        where = join(path, "tags")
        count, tag, end = self.new("t"), self.new("g"), self.new("z")
        self.add(where, depth, f"{count} = b[p]", f"if {count}:")
        self.add(where, depth + 1, f"{count}, p = uvarint(b, p)")
        self.add(where, depth + 1, f"if {count} > {TAGS_MAX}: raise crowded('tagged fields', {count}, {TAGS_MAX})")
        self.add(where, depth + 1, f"while {count}:")
        inner = depth + 2
        self.add(where, inner, f"{count} -= 1", f"{tag}, p = uvarint(b, p)", "l, p = uvarint(b, p)")
        self.add(where, inner, f"{end} = p + l", f"if {end} > n: raise short('size', l, n - p)")
        for i, spec in enumerate(tagged):
            field = join(path, spec.name)
            self.add(field, inner, f"{'elif' if i else 'if'} {tag} == {spec.tag}:")
            self.value(inner + 1, spec, f"{target}.{spec.name}", field)
            self.add(field, inner, f"    if p != {end}: raise Malformed('its tag is %d bytes longer' % ({end} - p))")
        self.add(where, inner, f"p = {end}")
        self.add(where, depth, "else: p += 1")
