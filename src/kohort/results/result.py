"""Base class of command results: JSON, lines of ndjson, and JSON schema.

A result is a struct whose tag names its schema. ``ndjson`` has a line for each entry of the list field that ``LINES``
names. ``--output schema`` prints the schema; ``docs/schemas`` has it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final, get_args, get_origin, get_type_hints

import msgspec

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class Result(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema"):
    """Result of a command. New versions may add fields with a default, but never rename fields."""

    LINES: ClassVar[str] = ""
    """Name of the list field whose entries are the lines of ``ndjson``. If empty, the whole result is one line."""
    ON_LINES: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that are repeated on every line of ``ndjson``."""
    PARTS: ClassVar[str] = ""
    """Name of the list field whose entries are results. ``ndjson`` has the lines of each of these results."""
    SEVERAL: ClassVar[type[Result] | None] = None
    """Class of the result for several objects, such as several groups.

    The command prints it if several are requested.
    """


def lines_of_result(result: Result) -> Iterator[dict[str, Any]]:
    """Yield the lines of ``ndjson``: one for each list entry.

    Each line also has the schema name and the common fields.
    """
    if result.PARTS:
        for part in getattr(result, result.PARTS):
            yield from lines_of_result(part)
        return
    about: dict[str, Any] = msgspec.to_builtins(result)
    if not result.LINES:
        yield about
        return
    common = {name: about[name] for name in result.ON_LINES}
    for entry in about[result.LINES]:
        yield {"schema": line_schema_name(type(result)), **common, **entry}


def line_of(result: type[Result], entry: msgspec.Struct, **common: Any) -> dict[str, Any]:
    return {"schema": line_schema_name(result), **common, **msgspec.to_builtins(entry)}


def schema_name(result: type[Result]) -> str:
    """Return the schema name in the JSON of a result, such as ``kohort/v1/group.describe``."""
    return str(result.__struct_config__.tag)


def line_schema_name(result: type[Result]) -> str:
    return f"{schema_name(result)}.line"


def schema_of(result: type[Result]) -> dict[str, Any]:
    """Return a JSON schema that accepts the result, a single ``ndjson`` line of it, or a result of several objects."""
    row = _row_of(result)
    kinds = [kind for kind in (result, row, result.SEVERAL) if kind is not None]
    (whole, *others), parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    several = [] if result.SEVERAL is None else others[-1:]
    name = schema_name(result)
    about: dict[str, Any] = {"$schema": DIALECT, "$id": name, "title": name}
    if row is None:
        return {**about, **({"anyOf": [whole, *several]} if several else whole), "$defs": parts}
    of_result, of_row = parts[result.__name__], parts[others[0]["$ref"].rpartition("/")[2]]
    parts[f"{result.__name__}Line"] = {
        "title": f"{result.__name__}Line",
        "description": f"A line of ndjson: an entry of {result.LINES}.",
        "type": "object",
        "properties": {
            "schema": {"enum": [line_schema_name(result)]},
            **{field: of_result["properties"][field] for field in result.ON_LINES},
            **of_row["properties"],
        },
        "required": ["schema", *result.ON_LINES, *of_row.get("required", ())],
    }
    either = [whole, {"$ref": f"#/$defs/{result.__name__}Line"}, *several]
    return {**about, "anyOf": either, "$defs": parts}


def _row_of(result: type[Result]) -> type[msgspec.Struct] | None:
    if not result.LINES:
        return None
    hint = get_type_hints(result)[result.LINES]
    if get_origin(hint) not in (list, tuple):
        raise TypeError(f"{result.__name__}.{result.LINES} is not a list")
    row: type[msgspec.Struct] = get_args(hint)[0]
    return row
