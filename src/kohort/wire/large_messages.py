"""Response that is encoded in parts: its bytes need a tenth of the memory of its structs.

The parts fill the nested arrays at ``path``. Complete elements are encoded (``WrittenArray``); the last element of each
array may still grow, so it stays a struct.
"""

from __future__ import annotations

from typing import Any, Final

from kohort.steps import Pace, Steps, emptied
from kohort.wire.codec import encode_elements_in_steps, is_replaced
from kohort.wire.schema import Message
from kohort.wire.writers import WrittenArray


class GrowingAnswer:
    """Response at one version of its API, encoded in parts."""

    def __init__(self, version: int, path: tuple[str, ...]) -> None:
        self._version = version
        self._path = path
        self._whole: Message | None = None
        self.written_bytes = 0

    def add(self, part: Message, continued: int) -> Steps[None]:
        """Encode a part and free it. Raises ProtocolError for a part that this version cannot encode.

        ``continued``: number of array levels at which the part's first element continues the last element so far.
        """
        items = getattr(part, self._path[0])
        if self._whole is None:
            self._whole = part
            setattr(part, self._path[0], WrittenArray())
        yield from self._add(getattr(self._whole, self._path[0]), items, 0, continued)

    def finish(self) -> Steps[Message]:
        assert self._whole is not None, "an answer has a part"
        array = getattr(self._whole, self._path[0])
        if array:
            yield from self._write(array, [array.pop()], 0)
        return self._whole

    def _add(self, array: WrittenArray, items: list[Any], level: int, continued: int) -> Steps[None]:
        if level + 1 == len(self._path):
            yield from self._write(array, items, level)
            return
        inner = self._path[level + 1]
        if continued and array and items:
            first = items[0]
            yield from self._add(getattr(array[-1], inner), getattr(first, inner), level + 1, continued - 1)
            items = items[1:]
        if not items:
            return
        *complete, last = items
        yield from self._write(array, [*([array.pop()] if array else ()), *complete], level)
        below, grows = getattr(last, inner), WrittenArray()
        setattr(last, inner, grows)
        yield from self._add(grows, below, level + 1, 0)
        array.append(last)

    def _write(self, array: WrittenArray, elements: list[Any], level: int) -> Steps[None]:
        assert self._whole is not None, "elements have an answer"
        kind = type(self._whole)
        if is_replaced(kind):
            array.extend(elements)
        elif elements:
            buffers = yield from encode_elements_in_steps(kind, self._version, self._path[: level + 1], elements)
            self.written_bytes -= sum(self._inner_bytes(element, level) for element in elements)
            array.buffers += buffers
            array.written += len(elements)
            self.written_bytes += sum(map(len, buffers))
            encoded = list(elements)
            elements.clear()
            yield from free_in_steps(encoded)

    def _inner_bytes(self, element: Message, level: int) -> int:
        if level + 1 == len(self._path):
            return 0
        array = getattr(element, self._path[level + 1])
        if type(array) is not WrittenArray:
            return 0
        inner = sum(self._inner_bytes(one, level + 1) for one in array)
        return inner + sum(map(len, array.buffers))


WALK_US: Final = 1.0
GATHER_US: Final = 0.02
GATHERED_AT_ONCE: Final = 50_000


def free_in_steps(values: list[Message]) -> Steps[None]:
    """Free the messages in ``values``, which no other object may reference; ``values`` becomes empty."""
    pace = Pace(goes_on=True)
    leaves: list[Any] = []
    at = 0
    while at < len(values):  # the loop appends to it
        one = values[at]
        at += 1
        gathered = 0
        for name, has_arrays in _struct_arrays(type(one)):
            inner = getattr(one, name) or ()
            for begin in range(0, len(inner), GATHERED_AT_ONCE):
                (values if has_arrays else leaves).extend(inner[begin : begin + GATHERED_AT_ONCE])
                if begin and pace.is_due(GATHER_US * GATHERED_AT_ONCE):
                    yield
            gathered += min(len(inner), GATHERED_AT_ONCE)
        if pace.is_due(WALK_US + GATHER_US * gathered):
            yield
    one = inner = None  # type: ignore[assignment]
    values.reverse()
    yield from emptied(values, pace)
    yield from emptied(leaves, pace)


_arrays: dict[type[Message], list[tuple[str, bool]]] = {}


def _struct_arrays(kind: type[Message]) -> list[tuple[str, bool]]:
    known = _arrays.get(kind)
    if known is None:
        arrays = [(f.name, f.of) for f in kind.FIELDS if f.kind == "array" and isinstance(f.of, type)]
        known = _arrays[kind] = [(name, bool(_struct_arrays(of))) for name, of in arrays]
    return known
