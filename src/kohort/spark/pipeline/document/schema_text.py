"""Reads a schema of Spark's (``id long, place struct<x: int>``) without Spark: its names, and what is no type."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kohort.nearest import did_you_mean

_TYPES: Final = """
boolean tinyint byte smallint short int integer bigint long float real double decimal dec numeric date time timestamp
timestamp_ntz timestamp_ltz string char character varchar binary void interval array map struct variant geometry
geography
"""
_BEHIND_A_TYPE: Final = "not null comment default collate to year month day hour minute second"
_TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\w.]+|\S)")


class SchemaProblem(ValueError):
    """A text that is no schema, in a sentence."""


class SchemaColumn(NamedTuple):
    """A column and the names of the fields that are nested in it."""

    name: str
    fields: frozenset[str]


def parse_schema(text: str) -> list[SchemaColumn]:
    """Return the columns of a schema. Raises SchemaProblem for what Spark would not read either.

    What follows a type (NOT NULL, COMMENT, DEFAULT, COLLATE) is passed over.
    """
    reader = _SchemaParser([match[1] for match in _TOKEN.finditer(text.strip())])
    columns = reader.columns(end="")
    first: dict[str, str] = {}
    for name in (column.name for column in columns):
        other = first.get(name.lower())
        if other is not None:
            one = (
                f"two columns are called {name!r}"
                if name == other
                else f"SQL takes {other!r} and {name!r} for one column"
            )
            raise SchemaProblem(one)
        first[name.lower()] = name
    return columns


class _SchemaParser:
    """Tokens, one after the other."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def columns(self, end: str) -> list[SchemaColumn]:
        """Take the columns up to ``end``, and ``end``."""
        found: list[SchemaColumn] = []
        if end and self._peek() == end:
            self._next()
            return []
        while True:
            name = self._next()
            if not name:
                raise SchemaProblem("a column is missing at the end" if found else "it is empty")
            if self._peek() == ":":
                self._next()
            if self._peek() in (",", end):
                raise SchemaProblem(f"{name!r} has no type")
            plain = name[1:-1].replace("``", "`") if name.startswith("`") else name
            found.append(SchemaColumn(plain, frozenset(self._type())))
            self._pass_over(end)
            token = self._next()
            if token == end:
                return found
            if token != ",":
                raise SchemaProblem(f"expected a comma or the end, found {token!r}")

    def _type(self) -> set[str]:
        """Take a type and return the names that are nested in it."""
        word = self._next()
        kind = word.lower()
        if kind not in _TYPES.split():
            raise SchemaProblem(f"{word!r} is no type of Spark's{did_you_mean(kind, _TYPES.split())}")
        nested: set[str] = set()
        if kind == "struct" and self._peek() == "<":
            self._next()
            for column in self.columns(end=">"):
                nested |= {column.name, *column.fields}
        elif kind in ("array", "map"):
            self._expect("<", word)
            nested |= self._type()
            self._pass_over(">")
            if kind == "map":
                self._expect(",", word)
                nested |= self._type()
                self._pass_over(">")
            self._expect(">", word)
        elif self._peek() == "(":
            while self._peek() and self._next() != ")":
                pass
        return nested

    def _expect(self, token: str, of: str) -> None:
        if self._next() != token:
            raise SchemaProblem(f"{of} needs its types, such as array<string> or map<string, long>")

    def _pass_over(self, end: str) -> None:
        """Take what may follow a type."""
        while self._peek() and self._peek() not in (",", end):
            word = self._next()
            if word.lower() in _BEHIND_A_TYPE.split() or word.startswith(("'", '"')):
                continue
            if self._tokens[self._at - 2].lower() not in ("collate", "default"):
                raise SchemaProblem(f"expected a comma or the end, found {word!r}")
