"""Building blocks of kernels: parts, called only by kernels, and primitives of one or two instructions.

The Python code defines what a primitive does; ``compiler`` has its instructions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_parts: Final[set[Any]] = set()
_primitives: Final[set[Any]] = set()


def part(function: F) -> F:
    """Mark a function that only kernels call. Pass no literal constants: each one compiles it again."""
    _parts.add(function)
    return function


def called_by(function: FunctionType) -> Iterator[FunctionType]:
    """Yield the parts and primitives that ``function`` names."""
    for name in function.__code__.co_names:
        found = function.__globals__.get(name)
        if isinstance(found, FunctionType) and (found in _parts or found in _primitives):
            yield found


def _primitive(function: F) -> F:
    _primitives.add(function)
    return function


@_primitive
def load8(address: int) -> int:
    return ctypes.c_uint8.from_address(address).value


@_primitive
def load64(address: int) -> int:
    """Return the 64 bits at an address, in native byte order."""
    return ctypes.c_int64.from_address(address).value


@_primitive
def big16(address: int) -> int:
    return int.from_bytes(ctypes.string_at(address, 2), "big", signed=True)


@_primitive
def big32(address: int) -> int:
    return int.from_bytes(ctypes.string_at(address, 4), "big", signed=True)


@_primitive
def big64(address: int) -> int:
    return int.from_bytes(ctypes.string_at(address, 8), "big", signed=True)


@_primitive
def store8(address: int, value: int) -> None:
    ctypes.c_uint8.from_address(address).value = value


@_primitive
def store32(address: int, value: int) -> None:
    ctypes.c_uint32.from_address(address).value = value


@_primitive
def store64(address: int, value: int) -> None:
    ctypes.c_int64.from_address(address).value = value


@_primitive
def store_float(address: int, value: int) -> None:
    """Store an integer as a double rounded to a float."""
    ctypes.c_float.from_address(address).value = float(value)


@_primitive
def store_double(address: int, value: int) -> None:
    ctypes.c_double.from_address(address).value = float(value)


@_primitive
def widen_float(to: int, source: int) -> None:
    """Store the float at ``source`` as a double."""
    ctypes.c_double.from_address(to).value = ctypes.c_float.from_address(source).value


@_primitive
def copy(to: int, source: int, size: int) -> None:
    """Copy bytes, as memcpy."""
    ctypes.memmove(to, source, size)
