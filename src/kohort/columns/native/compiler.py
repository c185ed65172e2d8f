"""Compilation of a kernel to an object file by numba; imported only for a kernel that is not on disk."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any, Final

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kohort.columns.native import primitives

_NO_WRAPPERS: Final = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
OPTIONS: Final = {"nogil": True, "error_model": "numpy", "boundscheck": False, **_NO_WRAPPERS}
INT: Final = ir.IntType(64)


def compile_kernel(function: FunctionType, symbol: str, machine: llvm.TargetMachine) -> bytes:
    """Return an object file with the C function ``symbol``, which has the int64 signature of ``function``."""
    dispatcher = _native(function, dict(INTRINSICS))
    signature = (types.int64,) * function.__code__.co_argcount
    dispatcher.compile(signature)
    compiled = dispatcher.overloads[signature]
    assert compiled.signature.return_type == types.int64, "kernels return an integer"
    module = llvm.parse_assembly(compiled.library.get_llvm_str())
    entry = _entry(symbol, compiled.fndesc.llvm_func_name, len(signature))
    entry.triple, entry.data_layout = module.triple, module.data_layout
    module.link_in(llvm.parse_assembly(str(entry)))
    return bytes(machine.emit_object(module))


def _native(function: FunctionType, done: dict[FunctionType, Any]) -> Any:
    """Return numba's compilation of ``function`` and of the functions it calls."""
    if function not in done:
        counterparts = {called.__name__: _native(called, done) for called in primitives.called_by(function)}
        names = {**function.__globals__, **counterparts}
        done[function] = numba.njit(**OPTIONS)(FunctionType(function.__code__, names, function.__name__))
    return done[function]


def _entry(symbol: str, inside: str, arguments: int) -> ir.Module:
    """Return a C function around one of numba's, which returns through a pointer and cannot fail."""
    module = ir.Module(symbol)
    somewhere = ir.IntType(8).as_pointer().as_pointer()
    signature = ir.FunctionType(ir.IntType(32), [INT.as_pointer(), somewhere, *[INT] * arguments])
    called = ir.Function(module, signature, inside)
    entry = ir.Function(module, ir.FunctionType(INT, [INT] * arguments), symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    result, error = builder.alloca(INT), builder.alloca(somewhere.pointee)
    builder.call(called, [result, error, *entry.args])
    builder.ret(builder.load(result))
    return module


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
            return widen(value, INT)

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


def _number_storer(*, narrow: bool) -> Any:
    """Return the instructions that store an integer as a double, or rounded to a float."""

    def store(typing_context: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            value = builder.sitofp(args[1], ir.DoubleType())
            kind = ir.FloatType() if narrow else ir.DoubleType()
            value = builder.fptrunc(value, kind) if narrow else value
            builder.store(value, builder.inttoptr(args[0], kind.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), generate

    return intrinsic(store)


def _widen_float(typing_context: Any, to: Any, source: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        value = builder.load(builder.inttoptr(args[1], ir.FloatType().as_pointer()), align=1)
        value = builder.fpext(value, ir.DoubleType())
        builder.store(value, builder.inttoptr(args[0], ir.DoubleType().as_pointer()), align=1)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), generate


def _copy(typing_context: Any, to: Any, source: Any, size: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        target, origin = _pointer(builder, args[0], 8), _pointer(builder, args[1], 8)
        cgutils.raw_memcpy(builder, target, origin, args[2], 1)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), generate


INTRINSICS: Final[dict[Any, Any]] = {
    primitives.load8: _loader(8),
    primitives.load64: _loader(64),
    primitives.big16: _loader(16, big_endian=True),
    primitives.big32: _loader(32, big_endian=True),
    primitives.big64: _loader(64, big_endian=True),
    primitives.store8: _storer(8),
    primitives.store32: _storer(32),
    primitives.store64: _storer(64),
    primitives.store_float: _number_storer(narrow=True),
    primitives.store_double: _number_storer(narrow=False),
    primitives.widen_float: intrinsic(_widen_float),
    primitives.copy: intrinsic(_copy),
}
