"""Random messages from their declarations: any API, any version, any field with extreme values.

Names are usually those of existing objects (topics, groups, members, ids), so that requests pass the first checks.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kohort.errors import ProtocolError
from kohort.wire.codec import encode_bytes
from kohort.wire.schema import FieldSpec, Message

BITS = {"b": 8, "h": 16, "H": 16, "i": 32, "q": 64}
ODD_TEXTS = (
    "",
    " ",
    ".",
    "..",
    "a/b",
    "../../x",
    "\x00",
    "x" * 249,
    "x" * 250,
    "ä€😀",
    "\u202e",
    "\x1b[2J",
    "*",
    "-1",
    "a" * 3000,
)
SMALL = (0, 0, 0, 1, 1, 2, 3, 5, -1, -1, -2, 7, 100, 1000)
DEEPEST = 6


@dataclass(slots=True)
class Vocabulary:
    """Names of existing objects, by the endings of their fields' names."""

    texts: dict[str, Sequence[str]] = field(default_factory=dict)
    numbers: dict[str, Sequence[int]] = field(default_factory=dict)
    ids: Sequence[bytes] = (bytes(16), b"\xff" * 16)
    blobs: Sequence[bytes] = (b"", b"\0\0", b"x")
    batches: Sequence[bytes] = (b"",)
    any_texts: Sequence[str] = ("a",)

    def text(self, name: str, rng: random.Random) -> str:
        """Return a string for a field."""
        if rng.random() < 0.06:
            return rng.choice(ODD_TEXTS)
        for ending, values in self.texts.items():
            if name.endswith(ending) and rng.random() < 0.9:
                return rng.choice(values)
        return rng.choice(self.any_texts)

    def number(self, name: str, bits: int, rng: random.Random) -> int:
        """Return a number for a field, within its type."""
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        if rng.random() < 0.08:
            return rng.choice((low, high, low + 1, high - 1, 0, -1))
        for ending, values in self.numbers.items():
            if name.endswith(ending) and rng.random() < 0.9:
                return rng.choice(values)
        return min(max(rng.choice(SMALL), low), high)


def made_up(message: type[Message], version: int, rng: random.Random, words: Vocabulary, depth: int = 0) -> Any:
    """Return a value of ``message`` with only the fields of ``version``."""
    present = {}
    for spec in message.FIELDS:
        if version not in spec.versions or (spec.tag is not None and rng.random() < 0.5):
            continue
        if version in spec.nullable and rng.random() < 0.15:
            present[spec.name] = None
        else:
            present[spec.name] = _value(spec, version, rng, words, depth)
    return message(**present)


def _value(spec: FieldSpec, version: int, rng: random.Random, words: Vocabulary, depth: int) -> Any:
    match spec.kind:
        case "fixed":
            return _fixed(spec, rng, words)
        case "string":
            return words.text(spec.name, rng)
        case "bytes":
            return rng.choice(words.blobs)
        case "records":
            return rng.choice(words.batches)
        case "struct":
            assert isinstance(spec.of, type)
            return made_up(spec.of, version, rng, words, depth + 1)
    count = 0 if depth > DEEPEST else rng.choice((0, 1, 1, 1, 1, 2, 2, 3, 6))
    if isinstance(spec.of, type):
        return [made_up(spec.of, version, rng, words, depth + 1) for _ in range(count)]
    assert spec.of is not None
    named = FieldSpec(**{**{f: getattr(spec.of, f) for f in spec.of.__slots__}, "name": spec.name.removesuffix("s")})
    return [_value(named, version, rng, words, depth + 1) for _ in range(count)]


def _fixed(spec: FieldSpec, rng: random.Random, words: Vocabulary) -> Any:
    if spec.code == "?":
        return rng.random() < 0.5
    if spec.code == "d":
        return rng.choice((0.0, 1.0, -1.0, 1e308, float("nan"), float("inf"), float("-inf"), 0.5, 1e6))
    if spec.code == "16s":
        return rng.choice(words.ids)
    number = words.number(spec.name, BITS[spec.code], rng)
    return number & 0xFFFF if spec.code == "H" else number


def bytes_of(message: type[Message], version: int, rng: random.Random, words: Vocabulary) -> bytes:
    """Encode a random message; repeat until one can be encoded."""
    while True:
        try:
            return encode_bytes(made_up(message, version, rng, words), version)
        except ProtocolError:
            continue
