"""Reversible replacement of functions and methods."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import partial, wraps
from types import TracebackType
from typing import Any

Wrapper = Callable[..., Any]
"""Called as ``wrapper(original, *args, **kwargs)``; a method's ``self`` is the first of ``args``."""


class Patch:
    """Context manager of replacements; undoes all of them at its end."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Patch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        while self._undo:
            self._undo.pop()()

    def method(self, owner: type, name: str, wrapper: Wrapper) -> None:
        """Wrap the method or property ``owner.name`` in ``wrapper``."""
        original = owner.__dict__[name]
        if isinstance(original, property):
            getter = original.fget
            assert getter is not None
            self._set(owner, name, property(_around(getter, wrapper)))
        elif isinstance(original, classmethod):
            self._set(owner, name, classmethod(_around(original.__func__, wrapper)))
        else:
            self._set(owner, name, _around(original, wrapper))

    def function(self, original: Callable[..., Any], wrapper: Wrapper) -> None:
        """Wrap ``original`` in every module and table of kohort that refers to it."""
        replacement = _around(original, wrapper)
        for module in [m for name, m in sys.modules.items() if name.startswith(("kohort.", "kohort_lab."))]:
            for name, value in list(vars(module).items()):
                if value is original:
                    self._set(module, name, replacement)
                elif isinstance(value, dict) and not name.startswith("__"):
                    self._replace_in(value, original, replacement)

    def value(self, owner: Any, name: str, value: Any) -> None:
        self._set(owner, name, value)

    def _replace_in(self, table: dict[Any, Any], original: Any, replacement: Any) -> None:
        """Replace a table's value, or a dataclass field of a value."""
        for key, entry in list(table.items()):
            changed = entry
            if entry is original:
                changed = replacement
            elif is_dataclass(entry) and not isinstance(entry, type):
                replaced = {f.name: replacement for f in fields(entry) if getattr(entry, f.name, None) is original}
                changed = replace(entry, **replaced) if replaced else entry
            if changed is not entry:
                self._undo.append(partial(table.__setitem__, key, entry))
                table[key] = changed

    def _set(self, owner: Any, name: str, value: Any) -> None:
        before = vars(owner)[name]
        self._undo.append(lambda: setattr(owner, name, before))
        setattr(owner, name, value)


def _around(original: Callable[..., Any], wrapper: Wrapper) -> Callable[..., Any]:
    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    return call
