"""The machine code of kernels: found on disk or compiled and put there, and linked into this process by llvmlite.

Object files lie beside this module, or in the user's cache folder where that cannot be written; a process that may
write neither keeps none. A name consists of the kernel and a hash of its ingredients: the bytecode of the kernel and of
its parts, their constants, the processor, and the versions of kohort and llvmlite. A file begins with the SHA-256 of
the rest, and is read only if it is whole and belongs to this user or root. Several environments may share the cache
folder, and several machines a home, so files of other versions are kept as long as they are few: of each kernel the
newest ``VARIANTS_MOST``, and ``FILES_MOST`` in all.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

from kohort.columns.native.primitives import called_by
from kohort.version import VERSION

DIGEST_BYTES: Final = 32
OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
READABLE: Final = 0o644
"""Who shares the installation shares its machine code, as with compiled modules of Python."""
VARIANTS_MOST: Final = 4
"""Files of one kernel that are kept: for so many versions, environments or processors."""
FILES_MOST: Final = 100
BYTES_MOST: Final = 16 << 20
"""What is kept in one folder; all kernels of one version are some ten files and some tens of kilobytes."""
NAME: Final = re.compile(r"(?P<kernel>[\w.]+)-[0-9a-f]{20}\.o(\.\w+\.unfinished)?")
log = logging.getLogger(__name__)


def folders() -> list[Path]:
    """Return where object files may be kept, best first."""
    beside = Path(__file__).parent / "__pycache__"
    cache_home = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # nobody's home
        return [beside, (Path(cache_home) if cache_home else Path.home() / ".cache") / "kohort"]
    return [beside]


def stored(name: str, places: Sequence[Path]) -> bytes | None:
    """Return the object file of that name; None if there is none, or one that is damaged or not to be trusted.

    Either of these is told: it is made anew, which takes seconds.
    """
    for folder in places:
        with suppress(OSError):
            data = _trusted(folder / name)
            if hashlib.sha256(data[DIGEST_BYTES:]).digest() == data[:DIGEST_BYTES]:
                return data[DIGEST_BYTES:]
            log.warning("%s is damaged: the kernel is compiled anew", folder / name)
    return None


def _trusted(path: Path) -> bytes:
    """Read the file, which is about to be run. Raises PermissionError where that is not this user's to decide: it
    belongs to another one than this and root, or others may write to it."""
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if hasattr(os, "geteuid") and (found.st_uid not in (0, os.geteuid()) or found.st_mode & OTHERS_WRITE):
            text = f"{path} is not used: user {found.st_uid} owns it, mode {stat.S_IMODE(found.st_mode):o}"
            log.warning("%s; it must be this user's or root's, and written by nobody else", text)
            raise PermissionError(text)
        return file.read()


def store(name: str, code: bytes, places: Sequence[Path]) -> None:
    """Keep an object file for the processes to come, in the first of ``places`` that can be written, if any.

    Older files that this makes too many are removed.
    """
    for folder in places:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write_whole(folder / name, hashlib.sha256(code).digest() + code)
        except OSError as error:
            log.debug("%s cannot be kept in %s: %s", name, folder, error)
        else:
            remove_old(folder)
            return


def _write_whole(path: Path, data: bytes) -> None:
    """Write so that nobody sees a part of it, and nothing is left of what cannot be finished."""
    with tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=f"{path.name}.", suffix=".unfinished", delete=False
    ) as file:
        unfinished = Path(file.name)
        try:
            file.write(data)
            file.flush()
            unfinished.chmod(READABLE)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def remove_old(folder: Path) -> None:
    """Remove the oldest object files of a folder beyond its bounds; other files are let be.

    What a killed process left unfinished counts, too. A process that misses a file meanwhile makes it anew.
    """
    found: list[tuple[int, int, str, Path]] = []
    for path in folder.iterdir():
        match = NAME.fullmatch(path.name)
        with suppress(OSError):  # another process was faster
            if match is not None and path.is_file():
                status = path.stat()
                found.append((status.st_mtime_ns, status.st_size, match["kernel"], path))
    variants: Counter[str] = Counter()
    files = size = 0
    for _, file_size, kernel, path in sorted(found, reverse=True):
        if variants[kernel] < VARIANTS_MOST and files < FILES_MOST and size + file_size <= BYTES_MOST:
            variants[kernel] += 1
            files += 1
            size += file_size
            continue
        with suppress(OSError):
            path.unlink()
            log.debug("%s is old, and was removed", path)


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
