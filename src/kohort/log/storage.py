"""Where the bytes of logs rest: memory here, real files in ``aio``, a faulty disk in the simulator.

A storage is a folder that holds files and one level of folders (one per partition, as in Kafka); a name is ``"file"``
or ``"folder/file"``. Every method may raise StorageError, and only that.

Appended bytes can be read at once and outlive the process, but a loss of power may take what was not flushed.
``replace`` is atomic: after a crash the file holds the old content or the new one, never a mixture.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from kohort.errors import StorageError
from kohort.wire.buffers import Buffers
from kohort.wire.codec import Buffer

LENT_FROM: Final = 128 << 10
"""Pieces from this size on are lent: smaller ones cost nothing to make anew."""
LENT_MOST: Final = 32 << 20
"""How much one storage keeps to lend."""


class StorageFile(Protocol):
    """One file that grows at its end."""

    @property
    def size(self) -> int:
        """Bytes that are in the file."""
        ...

    @property
    def flushed(self) -> int:
        """How many of them, from the beginning, are known to outlive a loss of power."""
        ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end and return where they begin; on StorageError the file is as before."""
        ...

    def read(self, at: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``at``; fewer only where the file ends."""
        ...

    def lend(self, at: int, size: int) -> Buffer:
        """Read as ``read`` does; what is large may lie in a buffer that is used again once nobody looks into it."""
        ...

    def overwrite(self, at: int, data: Buffer) -> None:
        """Write over bytes that are there: only recovery does, to mend them."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        ...

    def flush(self) -> None:
        """Return when everything appended so far is on the disk."""
        ...

    def start_flush(self) -> None:
        """Have it flushed soon without waiting, files in the order asked; ``flushed`` tells when it was."""
        ...

    @property
    def is_flushing(self) -> bool:
        """Whether a flush that was started is still under way; one that is not, and did not flush, has failed."""
        ...

    def close(self) -> None:
        """Give the handle back; nothing is lost and nothing is flushed."""
        ...


class Room(NamedTuple):
    """How much fits on the disk of a storage: bytes, -1 where that is not known."""

    total_bytes: int
    usable_bytes: int


class Storage(Protocol):
    """A folder of files and of folders of files."""

    @property
    def place(self) -> str:
        """The folder by its absolute name."""
        ...

    def room(self) -> Room:
        """Return the room on the folder's disk. Raises StorageError where the disk says nothing."""
        ...

    def folders(self) -> list[str]:
        """Return the folders, sorted."""
        ...

    def files(self, folder: str = "") -> dict[str, int]:
        """Return names (without the folder) and sizes of the files in ``folder``, or at the root; none if it is
        missing."""
        ...

    def make_folder(self, folder: str) -> None:
        """Make ``folder`` unless it is there."""
        ...

    def rename_folder(self, folder: str, new: str) -> None: ...

    def delete_folder(self, folder: str) -> None:
        """Remove ``folder`` and all it holds; nothing happens if it is missing."""
        ...

    def start_delete_folder(self, folder: str) -> None:
        """Have ``folder`` removed soon, without waiting; what a stop interrupts is still there at the next start."""
        ...

    def open(self, name: str) -> StorageFile:
        """Open the file ``name``, an empty one if it is missing; its folder must be there."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return all of a small file, or None if it is missing."""
        ...

    def replace(self, name: str, content: Buffer, *, durable: bool = True, private: bool = False) -> None:
        """Give the file ``name`` this content, atomically; ``durable`` waits for the disk, ``private`` lets nobody else
        read it."""
        ...

    def rename(self, name: str, new: str) -> None:
        """Call the file ``name`` by another name of its folder, atomically; a file of that name is replaced."""
        ...

    def delete(self, name: str) -> None:
        """Remove a file; nothing happens if it is missing."""
        ...

    def start_delete(self, name: str) -> None:
        """Remove a file that may be large without waiting for the disk: its name is free at once."""
        ...


class MemoryFile:
    """A file in memory: durable at once, and gone with the process."""

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
        """Memory is as durable as it gets."""

    def start_flush(self) -> None:
        """Memory is as durable as it gets."""

    @property
    def is_flushing(self) -> bool:
        return False

    def close(self) -> None:
        """Close the file; its content stays with the storage."""


class MemoryStorage:
    """Files in memory, for ``--memory`` and for tests; making a broker on it again is a restart."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, bytearray]] = {"": {}}
        self._buffers = Buffers(LENT_MOST)

    @property
    def place(self) -> str:
        return "memory"

    def room(self) -> Room:
        return Room(-1, -1)

    def folders(self) -> list[str]:
        return sorted(name for name in self._folders if name)

    def files(self, folder: str = "") -> dict[str, int]:
        return {name: len(data) for name, data in sorted(self._folders.get(folder, {}).items())}

    def make_folder(self, folder: str) -> None:
        self._folders.setdefault(folder, {})

    def rename_folder(self, folder: str, new: str) -> None:
        if folder not in self._folders or new in self._folders:
            raise StorageError(f"cannot rename the folder {folder} to {new}: the one must exist and the other not")
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
            raise StorageError(f"cannot rename {name} to {new}: it is missing")
        folder[new.rpartition("/")[2]] = folder.pop(file)

    def delete(self, name: str) -> None:
        folder, _, file = name.rpartition("/")
        self._folders.get(folder, {}).pop(file, None)

    def start_delete(self, name: str) -> None:
        self.delete(name)

    def _place(self, name: str) -> tuple[dict[str, bytearray], str]:
        folder, _, file = name.rpartition("/")
        if folder not in self._folders:
            raise StorageError(f"cannot open {name}: its folder is missing")
        return self._folders[folder], file


T = TypeVar("T")
MISFITS: Final = (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)
"""What comes of taking JSON that is none, or is of another shape, for what it should be."""


def read_json(storage: Storage, name: str, parse: Callable[[Any], T], advice: str) -> T | None:
    """Return what ``parse`` makes of a file; None where there is none. Raises StorageError, with ``advice``, if it
    fails."""
    data = storage.read(name)
    if data is None:
        return None
    try:
        return parse(json.loads(data))
    except MISFITS as error:
        raise StorageError(f"{name} cannot be read ({error!r}). {advice}") from error
