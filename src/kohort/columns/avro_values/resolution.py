"""Rules of schema resolution (Avro 1.12): promotions, units, fields by name or alias, branches of unions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kohort.columns.avro_values import operations as op
from kohort.columns.avro_values.columns import PER_SECOND, unit_of
from kohort.columns.avro_values.schema import AvroProblem, Field, Type

PROMOTIONS: Final = {
    ("int", "int"): op.INT,
    ("int", "long"): op.LONG,
    ("int", "float"): op.TO_FLOAT,
    ("int", "double"): op.TO_DOUBLE,
    ("long", "long"): op.LONG,
    ("long", "float"): op.TO_FLOAT,
    ("long", "double"): op.TO_DOUBLE,
    ("float", "float"): op.FLOAT,
    ("float", "double"): op.WIDEN,
    ("double", "double"): op.DOUBLE,
    ("boolean", "boolean"): op.BOOLEAN,
    ("string", "string"): op.STRING,
    ("bytes", "string"): op.STRING,
    ("string", "bytes"): op.BYTES,
    ("bytes", "bytes"): op.BYTES,
}
"""Instruction by the primitive types of writer and reader."""


def source_of(field: Field, written: set[str]) -> str:
    """Return the name of the writer's field for a reader's field."""
    names = [name for name in (field.name, *sorted(field.aliases)) if name in written]
    return names[0] if names else field.name


def factor_of(writer: Type, reader: Type) -> int:
    """Return the factor between the units of two timestamps; negative to divide, 1 for other types."""
    if "timestamp" not in writer.logical or "timestamp" not in reader.logical:
        return 1
    theirs, ours = PER_SECOND[unit_of(writer.logical)], PER_SECOND[unit_of(reader.logical)]
    return ours // theirs if ours >= theirs else -(theirs // ours)


def branch_of(writer: Type, branches: tuple[Type, ...]) -> int:
    """Return the branch of a reader's union for a writer's type: the same type, else the first that it promotes to."""
    short = writer.name.rpartition(".")[2]
    tests: list[Callable[[Type], bool]] = [
        lambda branch: branch.name == writer.name or writer.name in branch.aliases,
        lambda branch: branch.name.rpartition(".")[2] == short,
    ]
    for test in tests:
        for place, branch in enumerate(branches):
            if branch.kind == writer.kind and branch.size == writer.size and (not writer.name or test(branch)):
                return place
    for place, branch in enumerate(branches):
        if writer.kind != branch.kind and (writer.kind, branch.kind) in PROMOTIONS:
            return place
    raise AvroProblem(f"{writer} is in no branch of the reader's union")
