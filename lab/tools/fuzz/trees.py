"""Mutations of JSON-like values that keep them readable."""

from __future__ import annotations

import json
import random
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1 << 31, 1 << 63, 1 << 64, -(1 << 63), 1e308, 0.5, "", "x", "0", "\x00",
    "ä\u202e", "\ud800",
    [], {}, [[]], [None], {"": None}, "x" * 300, float("inf"), float("nan"), "99999999999999999999",
)  # fmt: skip


def changed(tree: Any, rng: random.Random) -> Any:
    """Return the tree with one to a few parts removed, repeated, exchanged or changed."""
    new = _copied(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = _places(new, [])
        if not places:
            return rng.choice(ODD)
        holder, key = rng.choice(places)
        match rng.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.insert(key, _copied(holder[key]))
            case 2:
                other, name = rng.choice(places)
                if key in range(len(holder)) if isinstance(holder, list) else key in holder:
                    holder[key] = _copied(_at(other, name))
            case 3 if isinstance(holder, dict):
                holder[rng.choice(("x", "", "kind", "version", str(key) + "s"))] = holder.pop(key)
            case _:
                holder[key] = _copied(rng.choice(ODD))
    return new


def _at(holder: Any, key: Any) -> Any:
    try:
        return holder[key]
    except LookupError:
        return None


def _copied(tree: Any) -> Any:
    """Copy the lists and dicts of a tree; other values are immutable and shared."""
    if isinstance(tree, dict):
        return {key: _copied(value) for key, value in tree.items()}
    return [_copied(value) for value in tree] if isinstance(tree, list) else tree


def _places(tree: Any, into: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Add every place in a tree: its container, and its key or index."""
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            into.append((tree, key))
            if isinstance(value, dict | list):
                _places(value, into)
    return into


def json_bytes(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")
