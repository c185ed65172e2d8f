"""Java's properties format as java.util.Properties reads it, with escapes and continued lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import javaproperties

from kohort.errors import ConfigError

_no_escape = re.compile(r"^.*\\u(?![0-9A-Fa-f]{4}).*$", re.MULTILINE)


def parse_properties(text: str, *, is_damaged: bool = False) -> dict[str, str]:
    """Parse ``name=value``, ``name: value`` or ``name value``; the last duplicate counts.

    Raises ConfigError with the line number for a missing name or value, or an invalid escape; ignores such lines if the
    file may be damaged.
    """
    return {name: value for name, value in _pairs(text, is_damaged=is_damaged) if name}


def _pairs(text: str, *, is_damaged: bool) -> Iterator[tuple[str, str]]:
    number = 1  # line number of the next pair
    try:
        for found in javaproperties.parse(text):
            if isinstance(found, javaproperties.KeyValue):
                is_pair = found.key and (found.value or found.source.rstrip().endswith(("=", ":")))
                if is_pair:
                    yield found.key, found.value
                elif not is_damaged:  # the line may contain a secret
                    raise ConfigError(f"line {number}: expected name=value; the name or the = is missing")
            number += max(1, len(found.source.splitlines()))
    except javaproperties.InvalidUEscapeError:
        if not is_damaged:
            raise ConfigError(f"line {number}: expected four hexadecimal digits after \\u, or \\\\ for \\") from None
        yield from _pairs(_no_escape.sub("", text), is_damaged=True)


def build_properties(properties: Mapping[str, str]) -> str:
    return "".join(f"{javaproperties.join_key_value(name, value)}\n" for name, value in properties.items())


_PLACE: Final = re.compile(r"(\$?)\$\{(?:file:([^}]+)|(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?)\}")


def fill_in(text: str, environ: Mapping[str, str]) -> str:
    """Replace ``${NAME}`` and ``${file:PATH}`` by environment variables and files. Raises ConfigError if missing."""

    def content(match: re.Match[str]) -> str:
        escaped, file, name, default = match.groups()
        if escaped:
            return match[0][1:]
        if file is not None:
            try:
                return Path(file).read_text(encoding="utf-8").rstrip("\n")
            except OSError as error:
                raise ConfigError(f"{match[0]}: cannot read the file: {error.strerror}") from None
            except UnicodeDecodeError:
                raise ConfigError(f"{match[0]}: cannot read the file: not UTF-8") from None
        value = environ.get(name, default)
        if value is None:
            raise ConfigError(f"${{{name}}}: the environment variable is not set, and has no default")
        return value

    return _PLACE.sub(content, text)


class Filled(str):
    """Text without places to fill in. ``fill_in_value`` returns it unchanged."""

    __slots__ = ()


def fill_in_value(value: Any, environ: Mapping[str, str]) -> Any:
    """Fill in the value of an option: a text or a list of texts. Raises as ``fill_in``."""
    if isinstance(value, list):
        return [fill_in_value(item, environ) for item in value]
    return Filled(fill_in(value, environ)) if type(value) is str else value


def as_filled(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options whose texts are literal: a group named ``${file:...}`` must not read a file."""
    return {name: Filled(value) if type(value) is str else value for name, value in options.items()}


def escaped(text: str) -> str:
    return _PLACE.sub(lambda match: f"${match[0]}", text)
