"""Kernels: functions of integers and addresses that run as machine code, without the GIL.

The Python side keeps the buffers alive. A kernel is compiled by numba at its first call on a machine and cached on disk
as an object file. From then on llvmlite alone loads it: numba would cost a process almost a second and 100 MB. This
module imports neither.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class Kernel:
    """Function of int64 numbers, compiled or loaded at its first call. ``function``: the same in Python."""

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
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *arguments)  # releases the GIL during the call
        self._code = cast("Callable[..., int]", prototype(address_of_kernel(self.function)))
        return self._code


def kernel(function: F) -> F:
    return cast("F", Kernel(function))
