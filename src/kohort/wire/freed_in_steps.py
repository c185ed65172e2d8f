"""Let go of a large message in steps: a million objects that lose their last reference at once take tens of
milliseconds to free.

The message itself is not touched, as what it holds may be shared. Its structs are gathered in lists, so that each
outlives the one that holds it, and the lists are cut from their ends.
"""

from __future__ import annotations

from typing import Any, Final

from kohort.steps import Pace, Steps, emptied
from kohort.wire.schema import Message

WALK_US: Final = 1.0
GATHER_US: Final = 0.02
GATHERED_AT_ONCE: Final = 50_000


def let_go(held: list[Message]) -> Steps[None]:
    """Free what the messages in ``held`` hold, which nobody else may hold; ``held`` is empty afterwards."""
    pace = Pace(goes_on=True)
    leaves: list[Any] = []
    at = 0
    while at < len(held):  # it grows as it is walked
        one = held[at]
        at += 1
        gathered = 0
        for name, has_arrays in _struct_arrays(type(one)):
            inner = getattr(one, name) or ()
            for begin in range(0, len(inner), GATHERED_AT_ONCE):
                (held if has_arrays else leaves).extend(inner[begin : begin + GATHERED_AT_ONCE])
                if begin and pace.is_due(GATHER_US * GATHERED_AT_ONCE):
                    yield
            gathered += min(len(inner), GATHERED_AT_ONCE)
        if pace.is_due(WALK_US + GATHER_US * gathered):
            yield
    one = inner = None  # type: ignore[assignment]
    held.reverse()
    yield from emptied(held, pace)
    yield from emptied(leaves, pace)


_arrays: dict[type[Message], list[tuple[str, bool]]] = {}


def _struct_arrays(kind: type[Message]) -> list[tuple[str, bool]]:
    """Return the fields that are arrays of structs, and whether those have such fields themselves."""
    known = _arrays.get(kind)
    if known is None:
        arrays = [(f.name, f.of) for f in kind.FIELDS if f.kind == "array" and isinstance(f.of, type)]
        known = _arrays[kind] = [(name, bool(_struct_arrays(of))) for name, of in arrays]
    return known
