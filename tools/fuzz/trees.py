"""Changes values of JSON and the like where their parts are, so that what comes out can still be read."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1 << 31, 1 << 63, 1 << 64, -(1 << 63), 1e308, 0.5, "", "x", "0", "\x00",
    "ä\u202e", "\ud800",
    [], {}, [[]], [None], {"": None}, "x" * 300, float("inf"), float("nan"), "99999999999999999999",
)  # fmt: skip


def changed(tree: Any, rng: random.Random) -> Any:
    """Return the tree with one to a few of its parts gone, repeated, exchanged or made odd."""
    new = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(new))
        if not places:
            return rng.choice(ODD)
        holder, key = rng.choice(places)
        match rng.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 2:
                other, name = rng.choice(places)
                if key in range(len(holder)) if isinstance(holder, list) else key in holder:
                    holder[key] = copy.deepcopy(_at(other, name))
            case 3 if isinstance(holder, dict):
                holder[rng.choice(("x", "", "kind", "version", str(key) + "s"))] = holder.pop(key)
            case _:
                holder[key] = copy.deepcopy(rng.choice(ODD))
    return new


def _at(holder: Any, key: Any) -> Any:
    try:
        return holder[key]
    except LookupError:
        return None


def _places(tree: Any) -> Any:
    """Yield every place in a tree: what holds it, and the key or index."""
    items = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    for key, value in items:
        yield tree, key
        yield from _places(value)


def json_bytes(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")
