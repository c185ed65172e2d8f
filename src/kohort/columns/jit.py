"""numba, taken late: how a kernel is compiled, cached and given memory.

Importing this module imports numba; nothing on the way to ``kohort --help`` or to a first small poll does. Kernels take
and return integers only, addresses among them, so that each is compiled once whatever kind of buffer comes, and a call
costs a fraction of a microsecond. The Python side keeps the buffers alive.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])
OPTIONS: Final = {"nogil": True, "error_model": "numpy", "boundscheck": False}


def kernel(function: F) -> F:
    """Compile ``function`` at its first call, to run without the GIL.

    The machine code is kept on disk where numba finds a place to write: beside this file, in NUMBA_CACHE_DIR, or in the
    user's cache folder. A read-only install without a home has none; then it is compiled anew in each process.
    """
    try:
        compiled: F = numba.njit(**OPTIONS, cache=True, no_cfunc_wrapper=True)(function)
    except RuntimeError:
        compiled = numba.njit(**OPTIONS, no_cfunc_wrapper=True)(function)
    return compiled


def part(function: F) -> F:
    """A function that only kernels call: never cached by itself, and without the wrappers for callers in Python, which
    would be most of what it costs to compile. Give it no bare constants: numba compiles it anew for each."""
    compiled: F = numba.njit(**OPTIONS, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    return compiled


def _pointer(builder: Any, address: Any, bits: int) -> Any:
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


def _loader(bits: int, *, big_endian: bool = False) -> Any:
    def load(typing_context: Any, address: Any) -> Any:  # noqa: ARG001 - numba's calling convention
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            value = builder.load(_pointer(builder, args[0], bits), align=1)
            if big_endian and sys.byteorder == "little":
                value = builder.bswap(value)
            if bits == 64:
                return value
            widen = builder.sext if big_endian else builder.zext
            return widen(value, ir.IntType(64))

        return types.int64(types.int64), generate

    return intrinsic(load)


def _storer(bits: int) -> Any:
    def store(typing_context: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            value = builder.trunc(args[1], ir.IntType(bits)) if bits < 64 else args[1]
            builder.store(value, _pointer(builder, args[0], bits), align=1)
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), generate

    return intrinsic(store)


load8, load64 = _loader(8), _loader(64)
"""The unsigned byte, and the 64 bits in the machine's order, at an address."""
big16, big32, big64 = (_loader(bits, big_endian=True) for bits in (16, 32, 64))
"""The signed big-endian number at an address."""
store8, store32, store64 = _storer(8), _storer(32), _storer(64)
"""Write the low bits of a number at an address."""


def _copy(typing_context: Any, to: Any, source: Any, size: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        target, origin = _pointer(builder, args[0], 8), _pointer(builder, args[1], 8)
        cgutils.raw_memcpy(builder, target, origin, args[2], 1)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), generate


copy = intrinsic(_copy)
"""memcpy(to, source, size)."""
