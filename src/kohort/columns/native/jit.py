"""Kernels: functions of integers only, addresses among them, that run as machine code and without the GIL.

They are written in the part of Python that numba compiles, so that each is compiled once whatever kind of buffer comes;
the Python side keeps the buffers alive. A kernel is compiled at its first call on a machine and kept on disk as an
object file of some kilobytes. From then on it is loaded by llvmlite alone: numba would cost a process most of a second
and a hundred megabytes. Importing this module imports neither.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class Kernel:
    """A kernel that is compiled or loaded when it is first called. Takes and returns integers of 64 bits; ``function``
    is what it does, in Python."""

    def __init__(self, function: Callable[..., int]) -> None:
        assert isinstance(function, FunctionType)
        self.function = function
        self.__doc__ = function.__doc__
        self._code: Callable[..., int] | None = None

    def __call__(self, *args: int) -> int:
        return (self._code or self._load())(*args)

    def _load(self) -> Callable[..., int]:
        from kohort.columns.native.machine_code import address_of_kernel

        arguments = [ctypes.c_int64] * self.function.__code__.co_argcount
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *arguments)  # lets go of the GIL for the call
        self._code = cast("Callable[..., int]", prototype(address_of_kernel(self.function)))
        return self._code


def kernel(function: F) -> F:
    return cast("F", Kernel(function))
