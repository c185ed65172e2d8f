"""Cache of the kernels' machine code: object files on disk, linked into this process by llvmlite.

Object files lie beside this module, or in the user's cache folder if that is not writable. A file name has the kernel
and a hash of the bytecode of the kernel and its parts, their constants, the processor, and the versions of kohort and
llvmlite. A file begins with the SHA-256 of its content, and is used only if it is complete and owned by this user or
root. Environments may share the cache folder, so other versions are kept: the newest ``VARIANTS_MOST`` files of each
kernel, and ``FILES_MOST`` in total.
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
"""File mode: users of a shared installation share its machine code, as with compiled Python modules."""
VARIANTS_MOST: Final = 4
"""Files kept per kernel, for different versions, environments or processors."""
FILES_MOST: Final = 100
BYTES_MOST: Final = 16 << 20
"""Size limit of a folder in bytes; one version has about ten files and some tens of kilobytes."""
NAME: Final = re.compile(r"(?P<kernel>[\w.]+)-[0-9a-f]{20}\.o(\.\w+\.unfinished)?")
log = logging.getLogger(__name__)


def folders() -> list[Path]:
    """Return the folders for object files, best first."""
    beside = Path(__file__).parent / "__pycache__"
    cache_home = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # the user has no home folder
        return [beside, (Path(cache_home) if cache_home else Path.home() / ".cache") / "kohort"]
    return [beside]


def stored(name: str, places: Sequence[Path]) -> bytes | None:
    """Return the object file ``name``; None with a warning if it is damaged or not trusted."""
    for folder in places:
        with suppress(OSError):
            data = _trusted(folder / name)
            if hashlib.sha256(data[DIGEST_BYTES:]).digest() == data[:DIGEST_BYTES]:
                return data[DIGEST_BYTES:]
            log.warning("%s is damaged: compiling the kernel again", folder / name)
    return None


def _trusted(path: Path) -> bytes:
    """Read a file of machine code. Raises PermissionError if another user owns it or may write to it."""
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if hasattr(os, "geteuid") and (found.st_uid not in (0, os.geteuid()) or found.st_mode & OTHERS_WRITE):
            text = f"{path} is not used: user {found.st_uid} owns it, mode {stat.S_IMODE(found.st_mode):o}"
            log.warning("%s; this user or root must own it, and no other user may write to it", text)
            raise PermissionError(text)
        return file.read()


def store(name: str, code: bytes, places: Sequence[Path]) -> None:
    """Write an object file to the first writable folder of ``places``, and remove old files."""
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
    """Write a file atomically, and leave no partial file."""
    prefix, suffix = f"{path.name}.", ".unfinished"
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=prefix, suffix=suffix, delete=False) as file:
        unfinished = Path(file.name)
        try:
            file.write(data)
            file.flush()
            unfinished.chmod(READABLE)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def remove_old(folder: Path) -> None:
    """Remove the oldest object files of a folder beyond its limits, also unfinished ones."""
    found: list[tuple[int, int, str, Path]] = []
    for path in folder.iterdir():
        match = NAME.fullmatch(path.name)
        with suppress(OSError):  # another process removed it
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
            log.debug("removed the old %s", path)


_linked: Final[list[Any]] = []
"""References that keep the machine code in memory."""


def address_of_kernel(function: FunctionType) -> int:
    """Return the address of the code of ``function`` in this process.

    Raises LookupError if the compiler's output lacks it.
    """
    symbol = f"{function.__module__}.{function.__qualname__}"
    name = f"{symbol}-{fingerprint(function)}.o"
    code = stored(name, folders())
    address = None if code is None else linked(code, symbol)
    if address is None:  # kernel not compiled yet, or file of another kernel
        from kohort.columns.native.compiler import compile_kernel

        warn_of_compilation()
        code = compile_kernel(function, symbol, target_machine())
        store(name, code, folders())
        address = linked(code, symbol)
    if address is None:
        raise LookupError(f"the compiled object file has no symbol {symbol}")
    return address


def linked(code: bytes, symbol: str) -> int | None:
    """Link the object file ``code`` into this process; return the address of ``symbol``, None without it."""
    linker = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
    linker.add_object_file(llvm.ObjectFileRef.from_data(code))
    linker.finalize_object()
    address: int = linker.get_function_address(symbol)
    if not address:
        return None
    _linked.append(linker)
    return address


@cache
def warn_of_compilation() -> None:
    """Warn once per process: the first call takes some seconds, more on a busy machine."""
    log.warning("compiling kernels for this processor, once on this machine: this takes some seconds")


@cache
def processor() -> tuple[str, str]:
    """Return this processor's name and features for LLVM."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def target_machine() -> llvm.TargetMachine:
    name, features = processor()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=name, features=features, opt=3, reloc="default", codemodel="jitdefault")


def fingerprint(function: FunctionType) -> str:
    """Return a hash, 20 hexadecimal digits, of everything that the code of a kernel depends on."""
    made_of = [VERSION, llvmlite.__version__, *processor(), *sorted(set(_ingredients(function)))]
    return hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:20]


def _ingredients(function: FunctionType) -> Iterator[str]:
    code = function.__code__
    constants = {name: function.__globals__.get(name) for name in code.co_names}
    plain = sorted((name, value) for name, value in constants.items() if isinstance(value, (int, tuple)))
    yield repr((function.__module__, code.co_name, code.co_code, code.co_consts, code.co_names, plain))
    for called in called_by(function):
        yield from _ingredients(called)
