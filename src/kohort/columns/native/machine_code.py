"""The machine code of kernels: found on disk or compiled and put there, and linked into this process by llvmlite.

``object_files`` keeps the files. One is named after the kernel and what it was made of: the bytecode of the kernel and
of its parts, their constants, the processor, and the versions of what makes and loads it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from functools import cache
from types import FunctionType
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

from kohort.columns.native.object_files import folders, store, stored
from kohort.columns.native.primitives import called_by
from kohort.version import VERSION

log = logging.getLogger(__name__)
_linked: Final[list[Any]] = []
"""What keeps machine code in memory, for as long as the process lives."""


def address_of_kernel(function: FunctionType) -> int:
    """Return where the code of ``function`` lies in this process; another place at each call.

    Raises LookupError where the compiler makes something else of it.
    """
    symbol = f"{function.__module__}.{function.__qualname__}"
    name = f"{symbol}-{fingerprint(function)}.o"
    code = stored(name, folders())
    address = None if code is None else linked(code, symbol)
    if address is None:  # never compiled, or the file holds another kernel, whole
        from kohort.columns.native.compiler import compile_kernel

        tell_of_compilation()
        code = compile_kernel(function, symbol, target_machine())
        store(name, code, folders())
        address = linked(code, symbol)
    if address is None:
        raise LookupError(f"{symbol} is not in what was made of it")
    return address


def linked(code: bytes, symbol: str) -> int | None:
    """Link ``code``, an object file, into this process; return where ``symbol`` lies, or None if it has none."""
    linker = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
    linker.add_object_file(llvm.ObjectFileRef.from_data(code))
    linker.finalize_object()
    address: int = linker.get_function_address(symbol)
    if not address:
        return None
    _linked.append(linker)
    return address


@cache
def tell_of_compilation() -> None:
    """Warn once in a process: it is some seconds of somebody's first call, and many on a busy machine."""
    log.warning("kernels are compiled for this processor, once on this machine: that takes some seconds")


@cache
def processor() -> tuple[str, str]:
    """Return this processor's name and its features, as LLVM knows them."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def target_machine() -> llvm.TargetMachine:
    """Make what emits code for this processor; a linker takes it for its own."""
    name, features = processor()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=name, features=features, opt=3, reloc="default", codemodel="jitdefault")


def fingerprint(function: FunctionType) -> str:
    """Return a hash, 20 hexadecimal digits, of what the code of a kernel depends on."""
    made_of = [VERSION, llvmlite.__version__, *processor(), *sorted(set(_ingredients(function)))]
    return hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:20]


def _ingredients(function: FunctionType) -> Iterator[str]:
    code = function.__code__
    constants = {name: function.__globals__.get(name) for name in code.co_names}
    plain = sorted((name, value) for name, value in constants.items() if isinstance(value, (int, tuple)))
    yield repr((function.__module__, code.co_name, code.co_code, code.co_consts, code.co_names, plain))
    for called in called_by(function):
        yield from _ingredients(called)
