"""Java's properties format, as far as the files of brokers use it."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.errors import ConfigError


def parse_properties(text: str, *, is_damaged: bool = False) -> dict[str, str]:
    """Return the names and values of ``name=value`` or ``name: value``; there may be comments and continuations.

    Raises ConfigError, with its number, for a line that is neither; of a file that may be damaged such lines are
    passed over.
    """
    pairs: dict[str, str] = {}
    pending = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = pending + raw.strip()
        pending = ""
        if not line or line[0] in "#!":
            continue
        if line.endswith("\\"):
            pending = line[:-1]
            continue
        ends = min((i for i in (line.find("="), line.find(":")) if i > 0), default=-1)
        if ends >= 0:
            pairs[line[:ends].strip()] = line[ends + 1 :].strip()
        elif not is_damaged:
            raise ConfigError(f"line {number}: expected name=value; there is no = in it")  # its text may be a secret
    return pairs


def build_properties(properties: Mapping[str, str]) -> str:
    """Return a file of plain names and values, one to a line."""
    return "".join(f"{name}={value}\n" for name, value in properties.items())
