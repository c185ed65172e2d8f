"""Puts a mutant into a process that has already imported everything: functions get the code of the mutated file."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator
from inspect import CO_NEWLOCALS
from types import CodeType, FunctionType

Key = tuple[str, int, int]


class NotInPlace(Exception):
    """The mutant is in what runs at import: it needs a process that imports the file anew."""


class LiveFunctions:
    """The functions of this process by the code that they run."""

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        for one in gc.get_objects():
            if type(one) is FunctionType:
                code = one.__code__
                self._by_place[code.co_filename, code.co_qualname, code.co_firstlineno].append(one)

    @staticmethod
    def check(old: CodeType, new: CodeType) -> None:
        """Check that what runs at import is the same. Raises NotInPlace."""
        if _own(old) != _own(new):
            raise NotInPlace

    def swap(self, old: CodeType, new: CodeType) -> None:
        """Give every function of a file the code that it has in ``new``.

        Raises NotInPlace where that does not do.
        """
        self.check(old, new)
        olds, news = dict(_functions(old)), dict(_functions(new))
        for key, before in olds.items():
            after = news.get(key)
            if after is None or before == after:
                continue
            place = (before.co_filename, before.co_qualname, before.co_firstlineno)
            live = self._by_place.get(place, [])
            same = [function for function in live if function.__code__ == before] or live
            for function in same:
                try:
                    function.__code__ = after
                except ValueError as error:
                    raise NotInPlace from error


def _functions(module: CodeType) -> Iterator[tuple[Key, CodeType]]:
    """Every function's code in a module, also of functions in functions; each by name, line and count."""
    count: dict[tuple[str, int], int] = defaultdict(int)
    waiting = [module]
    while waiting:
        for const in waiting.pop().co_consts:
            if isinstance(const, CodeType):
                waiting.append(const)
                if const.co_flags & CO_NEWLOCALS:
                    place = (const.co_qualname, const.co_firstlineno)
                    yield (*place, count[place]), const
                    count[place] += 1


def _own(code: CodeType) -> list[object]:
    """What runs at import: the module's code and that of its classes, without their functions."""
    mine: list[object] = [code.co_code, code.co_names]
    for const in code.co_consts:
        if not isinstance(const, CodeType):
            mine.append((type(const), const))
        elif not const.co_flags & CO_NEWLOCALS:
            mine.append(_own(const))
    return mine
