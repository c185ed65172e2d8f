"""When a way built on kernels is worth loading: it costs a process a fifth of a second and 60 MB, as much time as
some ten thousands of records cost the plain way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

WORTH_LOADING: Final = 50_000
NEEDED: Final = ("numba", "numpy")


class FastWay:
    """A function built on kernels, and how often it was missed."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name
        self.missed = 0
        """How many records this process has done the plain way where kernels would have helped."""
        self._function: Callable[..., Any] | None = None

    def found(self) -> Callable[..., Any] | None:
        """The function, once it pays. None until then, or where numba is not installed: on a machine's first use it
        compiles the kernels."""
        if self._function is None and self._pays():
            self._function = getattr(import_module(self.module), self.name)
        return self._function

    def _pays(self) -> bool:
        if self.module in sys.modules:
            return True
        if self.missed < WORTH_LOADING:
            return False
        if any(find_spec(name) is None for name in NEEDED):
            self.missed = 0
            return False
        return True
