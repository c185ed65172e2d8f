"""Reads a schema of Spark's (``id long, place struct<x: int>``) without Spark: its names, and what is no type."""

from __future__ import annotations

import re
from typing import Final

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


def parse_schema(text: str) -> list[str]:
    """Return the names of the columns. Raises SchemaProblem for a text that Spark refuses.

    The words after a type (NOT NULL, COMMENT, DEFAULT, COLLATE) are skipped.
    """
    reader = _SchemaParser([match[1] for match in _TOKEN.finditer(text.strip())])
    columns = reader.columns(end="")
    first: dict[str, str] = {}
    for name in columns:
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

    def columns(self, end: str) -> list[str]:
        """Take the columns up to ``end``, and ``end``."""
        found: list[str] = []
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
            found.append(name[1:-1].replace("``", "`") if name.startswith("`") else name)
            self._type()
            self._pass_over(end)
            token = self._next()
            if token == end:
                return found
            if token != ",":
                raise SchemaProblem(f"expected a comma or the end, found {token!r}")

    def _type(self) -> None:
        word = self._next()
        kind = word.lower()
        if kind not in _TYPES.split():
            raise SchemaProblem(f"{word!r} is no type of Spark's{did_you_mean(kind, _TYPES.split())}")
        if kind == "struct" and self._peek() == "<":
            self._next()
            self.columns(end=">")
        elif kind in ("array", "map"):
            self._expect("<", word)
            self._type()
            self._pass_over(">")
            if kind == "map":
                self._expect(",", word)
                self._type()
                self._pass_over(">")
            self._expect(">", word)
        elif self._peek() == "(":
            while self._peek() and self._next() != ")":
                pass

    def _expect(self, token: str, of: str) -> None:
        if self._next() != token:
            raise SchemaProblem(f"{of} needs its types, such as array<string> or map<string, long>")

    def _pass_over(self, end: str) -> None:
        while self._peek() and self._peek() not in (",", end):
            word = self._next()
            if word.lower() in _BEHIND_A_TYPE.split() or word.startswith(("'", '"')):
                continue
            if self._tokens[self._at - 2].lower() not in ("collate", "default"):
                raise SchemaProblem(f"expected a comma or the end, found {word!r}")
