"""Storage of log files: in memory here, on disk in ``aio``, a faulty disk in the simulator.

A storage is a folder with files and one level of folders, one per partition as in Kafka; a name is ``"file"`` or
``"folder/file"``. Methods raise only StorageError.

Appended bytes are readable at once and survive the process; a power loss may take unflushed bytes. ``replace`` is
atomic: after a crash the file has the old content or the new one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from kohort.errors import StorageError
from kohort.wire.buffers import Buffers
from kohort.wire.codec import Buffer

LENT_FROM: Final = 128 << 10
"""Size in bytes from which a read returns a view of a buffer; smaller reads return a copy."""
LENT_MOST: Final = 32 << 20


class StorageFile(Protocol):
    """File that grows at its end."""

    @property
    def size(self) -> int: ...

    @property
    def flushed(self) -> int:
        """Number of bytes from the start of the file that survive a power loss."""

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Append all buffers and return their position. A StorageError leaves the file unchanged."""

    def read(self, at: int, size: int) -> bytes:
        """Return up to ``size`` bytes at position ``at``; fewer only at the end of the file."""

    def lend(self, at: int, size: int) -> Buffer:
        """Read as ``read`` does; a large result may be a view of a reusable buffer."""

    def overwrite(self, at: int, data: Buffer) -> None:
        """Overwrite existing bytes, for repairs by recovery."""

    def truncate(self, size: int) -> None: ...

    def flush(self) -> None:
        """Wait until all appended bytes are on disk."""

    def start_flush(self) -> None:
        """Flush in the background, several files in the order of the calls; ``flushed`` reports the progress."""

    @property
    def is_flushing(self) -> bool:
        """True while a flush is in flight. False after a failed flush, although bytes are unflushed."""

    def close(self) -> None:
        """Close the handle without a flush; no byte is lost."""


class DiskSpace(NamedTuple):
    """Size and free bytes of the disk; -1 if unknown."""

    total_bytes: int
    usable_bytes: int


class Storage(Protocol):
    """Root folder with files, and with folders of files."""

    @property
    def place(self) -> str: ...

    def disk_space(self) -> DiskSpace: ...

    def folders(self) -> list[str]: ...

    def files(self, folder: str = "") -> dict[str, int]:
        """Return the files of ``folder``, or of the root, with sizes; empty if the folder is missing."""

    def make_folder(self, folder: str) -> None: ...

    def rename_folder(self, folder: str, new: str) -> None: ...

    def delete_folder(self, folder: str) -> None:
        """Delete ``folder`` and its files; ignore a missing one."""

    def start_delete_folder(self, folder: str) -> None:
        """Delete ``folder`` in the background; after a stop the next broker start continues."""

    def open(self, name: str) -> StorageFile:
        """Open the file ``name``; create it if missing. Its folder must exist."""

    def read(self, name: str) -> bytes | None:
        """Return a small file; None if it is missing."""

    def replace(self, name: str, content: Buffer, *, durable: bool = True, private: bool = False) -> None:
        """Replace the file ``name`` atomically. ``durable``: flush it; ``private``: only the owner can access it."""

    def rename(self, name: str, new: str) -> None:
        """Rename the file within its folder, atomically, over an existing one."""

    def delete(self, name: str) -> None:
        """Delete a file; ignore a missing one."""

    def start_delete(self, name: str) -> None:
        """Delete a large file in the background; its name is free at once."""


class MemoryFile:
    """File in memory, lost with the process."""

    __slots__ = ("_buffers", "_data")

    def __init__(self, data: bytearray, buffers: Buffers | None = None) -> None:
        self._data = data
        self._buffers = Buffers(0) if buffers is None else buffers

    @property
    def size(self) -> int:
        return len(self._data)

    @property
    def flushed(self) -> int:
        return len(self._data)

    def append(self, buffers: Sequence[Buffer]) -> int:
        at = len(self._data)
        for buffer in buffers:
            self._data += buffer
        return at

    def read(self, at: int, size: int) -> bytes:
        with memoryview(self._data) as view:
            return bytes(view[at : at + size])

    def lend(self, at: int, size: int) -> Buffer:
        size = min(size, len(self._data) - at)
        if size < LENT_FROM:
            return self.read(at, size)
        lent = self._buffers.take(size)
        with memoryview(self._data) as view:
            lent[:] = view[at : at + size]
        return lent

    def overwrite(self, at: int, data: Buffer) -> None:
        self._data[at : at + len(data)] = data

    def truncate(self, size: int) -> None:
        del self._data[size:]

    def flush(self) -> None:
        """Do nothing: memory needs no flush."""

    def start_flush(self) -> None:
        """Do nothing: memory needs no flush."""

    @property
    def is_flushing(self) -> bool:
        return False

    def close(self) -> None:
        """Do nothing: the storage keeps the content."""


class MemoryStorage:
    """Files in memory, for ``--memory`` and tests. A second broker on the same object is a restart."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, bytearray]] = {"": {}}
        self._buffers = Buffers(LENT_MOST)

    @property
    def place(self) -> str:
        return "memory"

    def disk_space(self) -> DiskSpace:
        return DiskSpace(-1, -1)

    def folders(self) -> list[str]:
        return sorted(name for name in self._folders if name)

    def files(self, folder: str = "") -> dict[str, int]:
        return {name: len(data) for name, data in sorted(self._folders.get(folder, {}).items())}

    def make_folder(self, folder: str) -> None:
        self._folders.setdefault(folder, {})

    def rename_folder(self, folder: str, new: str) -> None:
        if folder not in self._folders or new in self._folders:
            raise StorageError(f"cannot rename the folder {folder} to {new}: the first must exist, the second must not")
        self._folders[new] = self._folders.pop(folder)

    def delete_folder(self, folder: str) -> None:
        if folder:
            self._folders.pop(folder, None)

    def start_delete_folder(self, folder: str) -> None:
        self.delete_folder(folder)

    def open(self, name: str) -> MemoryFile:
        folder, file = self._place(name)
        return MemoryFile(folder.setdefault(file, bytearray()), self._buffers)

    def read(self, name: str) -> bytes | None:
        folder, _, file = name.rpartition("/")
        data = self._folders.get(folder, {}).get(file)
        return None if data is None else bytes(data)

    def replace(
        self,
        name: str,
        content: Buffer,
        *,
        durable: bool = True,  # noqa: ARG002 - memory knows no disk
        private: bool = False,  # noqa: ARG002 - memory knows no users
    ) -> None:
        folder, file = self._place(name)
        folder[file] = bytearray(content)

    def rename(self, name: str, new: str) -> None:
        folder, file = self._place(name)
        if file not in folder:
            raise StorageError(f"cannot rename {name} to {new}: file not found")
        folder[new.rpartition("/")[2]] = folder.pop(file)

    def delete(self, name: str) -> None:
        folder, _, file = name.rpartition("/")
        self._folders.get(folder, {}).pop(file, None)

    def start_delete(self, name: str) -> None:
        self.delete(name)

    def _place(self, name: str) -> tuple[dict[str, bytearray], str]:
        folder, _, file = name.rpartition("/")
        if folder not in self._folders:
            raise StorageError(f"cannot open {name}: folder not found")
        return self._folders[folder], file


T = TypeVar("T")
MISFITS: Final = (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)
"""Errors of malformed JSON and of unexpected types."""


def read_json(storage: Storage, name: str, parse: Callable[[Any], T], advice: str) -> T | None:
    """Parse a JSON file with ``parse``; None if it is missing. Raises StorageError with ``advice``."""
    data = storage.read(name)
    if data is None:
        return None
    try:
        return parse(json.loads(data))
    except MISFITS as error:
        raise StorageError(f"{name} cannot be read ({error!r}). {advice}") from error
