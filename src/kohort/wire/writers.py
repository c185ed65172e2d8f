"""Generate the writer of one version of one message: ``write(message, extend)``.

``extend`` takes a tuple of buffers. For speed the writer collects whole runs of fields before each call. A set field
that the version lacks is dropped if it is ``ignorable`` or has its default; otherwise it is an error.

A writer in steps is a generator: it yields between elements. It can also write the elements of one array alone, so that
a response is encoded before it is complete (``WrittenArray``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, Final

from kohort.steps import Steps
from kohort.wire.codec_text import (
    ARRAY_LAYOUTS,
    UVARINTS,
    CodeLine,
    CodeText,
    Malformed,
    default_of,
    is_fixed_size,
    join,
    plain_fields,
    tagged_fields,
)
from kohort.wire.schema import FieldSpec, Message

Writer = Callable[[Any, Callable[[Iterable[Any]], None]], None]
StepWriter = Callable[[Any, Callable[[Iterable[Any]], None]], Steps[None]]

STEP_ELEMENTS: Final = 2_000

_int16 = struct.Struct(">h").pack
_int32 = struct.Struct(">i").pack


def compile_writer(message: type[Message], version: int) -> Writer:
    return _WriterSource(message, version).compile()  # type: ignore[no-any-return]  # what exec made


def compile_step_writer(message: type[Message], version: int) -> StepWriter:
    return _WriterSource(message, version, in_steps=True).compile()  # type: ignore[no-any-return]  # what exec made


def compile_elements_writer(message: type[Message], version: int, path: tuple[str, ...]) -> StepWriter:
    """Return the stepwise writer of elements of the array at ``path``, without its length."""
    return _WriterSource(message, version, in_steps=True, path=path).compile()  # type: ignore[no-any-return]  # as above


class WrittenArray(list[Any]):
    """Array of structs: encoded elements, followed by the structs of the list."""

    __slots__ = ("buffers", "written")

    def __init__(self) -> None:
        super().__init__()
        self.buffers: list[Any] = []
        self.written = 0


class _WriterSource(CodeText):
    def __init__(
        self, message: type[Message], version: int, *, in_steps: bool = False, path: tuple[str, ...] = ()
    ) -> None:
        scope = {"Malformed": Malformed, "WrittenArray": WrittenArray, "V": UVARINTS, "int16": _int16, "int32": _int32}
        super().__init__(f"write_{message.__name__}_v{version}", "m, w", scope)
        self.version = version
        self.flexible = version in message.FLEXIBLE
        self.sink = "w"
        self.waiting: list[CodeLine] = []
        self.in_steps = in_steps
        if in_steps:
            self.add("", 0, "left = 0", "if w is None: yield")
        if path:
            self.each(0, _array_at(message, path), "m", ".".join(path))
        else:
            self.struct(0, message, "m", "")
        self.flush(0)
        self.add("", 0, "return")

    def put(self, path: str, *buffers: str) -> None:
        self.waiting.extend(CodeLine(buffer, path) for buffer in buffers)

    def flush(self, depth: int) -> None:
        """Write the pending buffers in one call, one per line, so that a failure names its field."""
        if not self.waiting:
            return
        pad = "    " * (depth + 1)
        self.lines.append(CodeLine(f"{pad}{self.sink}((", self.waiting[0].path))
        self.lines.extend(CodeLine(f"{pad}{line.text},", line.path, line.owner, line.run) for line in self.waiting)
        self.lines.append(CodeLine(f"{pad}))", self.waiting[-1].path))
        self.waiting = []

    def struct(self, depth: int, message: type[Message], source: str, path: str) -> None:
        for spec in message.FIELDS:
            if self.version not in spec.versions and not spec.ignorable:
                self.absent(depth, spec, source, join(path, spec.name))
        for is_fixed, specs in groupby(plain_fields(message, self.version, self.flexible), is_fixed_size):
            if is_fixed:
                self.run(list(specs), source, path)
            else:
                for spec in specs:
                    self.value(depth, spec, f"{source}.{spec.name}", join(path, spec.name))
        if self.flexible:
            self.tags(depth, tagged_fields(message, self.version, self.flexible), source, path)

    def absent(self, depth: int, spec: FieldSpec, source: str, path: str) -> None:
        default = self.bind("D", default_of(spec))
        problem = f"set, but version {self.version} has no such field"
        self.add(path, depth, f"if {source}.{spec.name} != {default}: raise Malformed({problem!r})")

    def run(self, run: list[FieldSpec], source: str, path: str) -> None:
        """Pack neighbouring fields of fixed size at once."""
        pack = self.bind("P", struct.Struct(">" + "".join(spec.code for spec in run)).pack)
        values = ", ".join(f"{source}.{spec.name}" for spec in run)
        self.waiting.append(CodeLine(f"{pack}({values})", path, source, tuple(run)))

    def value(self, depth: int, spec: FieldSpec, source: str, path: str) -> None:
        if spec.kind == "fixed":
            self.put(path, f"{self.bind('P', struct.Struct(f'>{spec.code}').pack)}({source})")
        elif spec.kind == "struct":
            self.nested(depth, spec, source, path)
        elif spec.kind == "array":
            self.array(depth, spec, source, path)
        else:
            self.sized(depth, spec, source, path)

    def length(self, spec: FieldSpec, length: str) -> str:
        if self.flexible:
            return f"V[{length} + 1]"
        return f"int16({length})" if spec.kind == "string" else f"int32({length})"

    def sized(self, depth: int, spec: FieldSpec, source: str, path: str) -> None:
        x, size = self.new("x"), self.new("y")
        several = spec.kind == "records"
        self.add(path, depth, f"{x} = {source}")
        if self.version in spec.nullable:
            nothing = "()" if several else "b''"
            self.add(path, depth, f"if {x} is None: {size} = {self.length(spec, '-1')}; {x} = {nothing}", "else:")
            depth += 1
        if spec.kind == "string":
            self.add(path, depth, f"{x} = {x}.encode()")
        elif several:
            self.add(path, depth, f"if type({x}) is not list: {x} = ({x},)")
        length = f"sum(map(len, {x}))" if several else f"len({x})"
        self.add(path, depth, f"{size} = {self.length(spec, length)}")
        self.put(path, size, f"*{x}" if several else x)

    def nested(self, depth: int, spec: FieldSpec, source: str, path: str) -> None:
        assert isinstance(spec.of, type)
        x = self.new("m")
        self.add(path, depth, f"{x} = {source}")
        if self.version not in spec.nullable:
            self.struct(depth, spec.of, x, path)
            return
        self.flush(depth)
        null = r"\x00" if spec.tag is not None else r"\xff"
        self.add(path, depth, f"if {x} is None: {self.sink}((b'{null}',))", "else:")
        self.put(path, "b'\\x01'")
        self.struct(depth + 1, spec.of, x, path)
        self.flush(depth + 1)

    def array(self, depth: int, spec: FieldSpec, source: str, path: str) -> None:
        x = self.new("x")
        self.add(path, depth, f"{x} = {source}")
        if self.version in spec.nullable:
            self.flush(depth)
            self.add(path, depth, f"if {x} is None: {self.sink}(({self.length(spec, '-1')},))", "else:")
            self.elements(depth + 1, spec, x, path)
            self.flush(depth + 1)
        else:
            self.elements(depth, spec, x, path)

    def elements(self, depth: int, spec: FieldSpec, x: str, path: str) -> None:
        of = spec.of
        may_be_written = self.in_steps or "." not in path  # only these arrays may grow (large_messages.py)
        if may_be_written and isinstance(of, type):
            count, buffers = self.new("n"), self.new("b")
            self.add(path, depth, f"{count}, {buffers} = len({x}), ()")
            self.add(path, depth, f"if type({x}) is WrittenArray: {count} += {x}.written; {buffers} = {x}.buffers")
            self.put(path, self.length(spec, count), f"*{buffers}")
        else:
            self.put(path, self.length(spec, f"len({x})"))
        if isinstance(of, FieldSpec) and of.code in ARRAY_LAYOUTS:
            self.put(path, f"{self.bind('L', ARRAY_LAYOUTS[of.code])}[len({x})].pack(*{x})")
            return
        self.flush(depth)
        self.each(depth, spec, x, path)

    def each(self, depth: int, spec: FieldSpec, x: str, path: str) -> None:
        of = spec.of
        index, item = self.new("i"), self.new("m")
        self.add(path, depth, f"for {index}, {item} in enumerate({x}):")
        at = f"{path}[{{{index}}}]"
        if isinstance(of, type):
            self.struct(depth + 1, of, item, at)
        else:
            assert of is not None
            self.value(depth + 1, of, item, at)
        if not self.waiting:
            self.add(at, depth, "    pass")
        self.flush(depth + 1)
        if self.in_steps:
            self.add(at, depth + 1, "left += 1", f"if left > {STEP_ELEMENTS}: left = 0; yield")

    def tags(self, depth: int, tagged: list[FieldSpec], source: str, path: str) -> None:
        where = join(path, "tags")
        if not tagged:
            self.put(where, "b'\\x00'")
            return
        found, outer = self.new("g"), self.sink
        self.flush(depth)
        self.add(where, depth, f"{found} = []")
        for spec in tagged:
            field = join(path, spec.name)
            parts, payload = self.new("t"), self.new("s")
            self.sink = f"{parts}.extend"
            value, default = f"{source}.{spec.name}", self.bind("D", default_of(spec))
            is_other = f"{value} is not {default} and " if spec.kind == "struct" else ""
            self.add(field, depth, f"if {is_other}{value} != {default}:", f"    {parts} = []")
            self.value(depth + 1, spec, f"{source}.{spec.name}", field)
            self.flush(depth + 1)
            self.add(field, depth + 1, f"{payload} = b''.join({parts})")
            self.add(field, depth + 1, f"{found} += (V[{spec.tag}], V[len({payload})], {payload})")
        self.sink = outer
        self.put(where, f"V[len({found}) // 3]", f"*{found}")


def _array_at(message: type[Message], path: tuple[str, ...]) -> FieldSpec:
    of: Any = message
    for name in path:
        spec: FieldSpec = next(field for field in of.FIELDS if field.name == name)
        of = spec.of
    assert isinstance(of, type), f"{message.__name__}.{'.'.join(path)} holds no structs"
    return spec
