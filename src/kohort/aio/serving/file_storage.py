"""Broker storage in files, for ``kohort serve --data DIR``.

Appends go to the page cache with ``pwritev``, so they survive a crash of the process; ``flush`` writes them to the
disk. ``start_flush`` flushes on a thread, because the flush of a gigabyte would block the broker; another thread
deletes large files. The data folder is locked with Kafka's lock file, so that no other broker can use it.

New files are accessible to the owner, and to the owner's group if the umask allows it. Files with secrets are
accessible to the owner only. An existing folder keeps its mode.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from kohort.broker.counters import Durations
from kohort.errors import DataDirInUse, StorageError
from kohort.log.storage import LENT_FROM, LENT_MOST, DiskSpace
from kohort.wire.buffers import Buffers
from kohort.wire.codec import Buffer

LOCK_FILE: Final = ".lock"
REPLACEMENT: Final = ".tmp"
DELETED: Final = ".deleted"
"""Suffix of a log file that waits for its deletion by a thread. A starting broker deletes leftover files."""
IOV_MAX: Final = 1024
FOLDER_MODE: Final = 0o770
FILE_MODE: Final = 0o640
SECRET_MODE: Final = 0o600

_open_here: set[Path] = set()
"""Data folders that are open in this process: POSIX locks do not exclude a second broker in the same process."""


@contextlib.contextmanager
def _storage_errors(action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot {action}: {error.strerror or error}") from error


class RealFile:
    """Open data file. A failed append truncates the file to its previous size."""

    def __init__(
        self, path: Path, flusher: ThreadPoolExecutor, buffers: Buffers, flushes: Durations, *, sync: bool
    ) -> None:
        self._path = path
        self._flusher = flusher
        self._buffers = buffers
        self._flushes = flushes
        self._sync = sync
        with _storage_errors(f"open {path}"):
            try:
                self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                self._new = False
            except FileNotFoundError:
                self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
                self._new = True
            self._size = os.fstat(self._fd).st_size
        self._flushed = 0
        self._flushes_begun = 0
        """Number of started flushes. Only the broker's thread changes it; the flusher changes ``_flushes_ended``."""
        self._flushes_ended = 0

    @property
    def size(self) -> int:
        return self._size

    @property
    def flushed(self) -> int:
        return self._flushed

    def append(self, buffers: Sequence[Buffer]) -> int:
        at = self._size
        total = sum(map(len, buffers))
        try:
            done = os.pwritev(self._fd, buffers, at) if len(buffers) <= IOV_MAX else 0
            if done < total:
                self._write_rest(buffers, at, done, total)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, at)
            raise StorageError(f"cannot write {total} bytes to {self._path}: {error.strerror or error}") from error
        self._size = at + total
        return at

    def _write_rest(self, buffers: Sequence[Buffer], at: int, done: int, total: int) -> None:
        with memoryview(b"".join(buffers)) as rest:
            while done < total:
                done += os.pwrite(self._fd, rest[done:], at + done)

    def read(self, at: int, size: int) -> bytes:
        try:
            data = os.pread(self._fd, size, at)
            while len(data) < size and at + len(data) < self._size:
                more = os.pread(self._fd, size - len(data), at + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise StorageError(f"cannot read {self._path} at position {at}: {error.strerror or error}") from error
        return data

    def lend(self, at: int, size: int) -> Buffer:
        size = min(size, self._size - at)
        if size < LENT_FROM:
            return self.read(at, size)
        lent = self._buffers.take(size)
        with _storage_errors(f"read {self._path} at position {at}"):
            done = os.preadv(self._fd, [lent], at)
            while done < size:
                more = os.preadv(self._fd, [lent[done:]], at + done)
                if not more:
                    break
                done += more
        return lent[:done]

    def overwrite(self, at: int, data: Buffer) -> None:
        with _storage_errors(f"write {len(data)} bytes to {self._path} at position {at}"):
            os.pwrite(self._fd, data, at)
        self._flushed = min(self._flushed, at)

    def truncate(self, size: int) -> None:
        with _storage_errors(f"truncate {self._path} to {size} bytes"):
            os.ftruncate(self._fd, size)
        self._size = size
        self._flushed = min(self._flushed, size)

    def flush(self) -> None:
        size = self._size
        with _storage_errors(f"flush {self._path}"):
            if self._sync:
                _fsync_file(self._fd, self._path, self._new)
        self._new = False
        self._flushed = size

    def start_flush(self) -> None:
        with _storage_errors(f"flush {self._path}"):
            self._flusher.submit(self._flush_copy, os.dup(self._fd), self._size)
        self._flushes_begun += 1

    @property
    def is_flushing(self) -> bool:
        return self._flushes_ended < self._flushes_begun

    def _flush_copy(self, fd: int, size: int) -> None:
        """Flush a file on the flusher's thread through a separate handle ``fd``, because the broker may close its own.

        Ignores errors: the bytes then count as unflushed, and the next required flush tries again.
        """
        try:
            if self._sync:
                began_ns = time.perf_counter_ns()
                _fsync_file(fd, self._path, self._new)
                self._flushes.add(time.perf_counter_ns() - began_ns)
            self._flushed = max(self._flushed, size)
        except OSError:
            pass
        finally:
            os.close(fd)
            self._flushes_ended += 1

    def close(self) -> None:
        if self._fd >= 0:
            with _storage_errors(f"close {self._path}"):
                fd, self._fd = self._fd, -1
                os.close(fd)


class FileStorage:
    """Data files in a folder, which is created if it is missing, and locked until ``close``.

    ``sync=False`` omits all fsyncs: for tests, or if the loss of the last seconds in a power failure is acceptable.
    """

    def __init__(self, root: str | os.PathLike[str], *, sync: bool = True) -> None:
        self._root = Path(root).resolve()
        self._sync = sync
        with _storage_errors(f"make the data folder {self._root}"):
            self._root.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        self._lock = self._take_lock()
        self._flusher = ThreadPoolExecutor(1, thread_name_prefix="kohort-flush")
        self.flushes = Durations()
        """Durations of background flushes. Only the flusher's thread adds durations."""
        self._remover = ThreadPoolExecutor(1, thread_name_prefix="kohort-remove")
        self._buffers = Buffers(LENT_MOST)

    def __enter__(self) -> FileStorage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_lock(self) -> int:
        if self._root in _open_here:
            raise DataDirInUse(f"the data folder {self._root} is in use by another broker of this process")
        with _storage_errors(f"lock the data folder {self._root}"):
            fd = os.open(self._root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                owner = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
                os.close(fd)
                owner_name = f"process {owner}" if owner else "another process"
                raise DataDirInUse(
                    f"the data folder {self._root} is in use by {owner_name}; stop it, or use another folder"
                ) from None
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        _open_here.add(self._root)
        return fd

    def close(self) -> None:
        """Wait for flushes in flight and unlock the data folder. The caller must close the open files."""
        if self._lock >= 0:
            self._flusher.shutdown()
            self._remover.shutdown()
            with contextlib.suppress(OSError):
                os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = -1
            _open_here.discard(self._root)

    @property
    def place(self) -> str:
        return str(self._root)

    def disk_space(self) -> DiskSpace:
        with _storage_errors(f"read the free space of the disk of {self._root}"):
            disk = os.statvfs(self._root)
        return DiskSpace(disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize)

    def folders(self) -> list[str]:
        with _storage_errors(f"list {self._root}"), os.scandir(self._root) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def files(self, folder: str = "") -> dict[str, int]:
        path = self._root / folder
        with _storage_errors(f"list {path}"):
            try:
                with os.scandir(path) as entries:
                    found = {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
            except FileNotFoundError:
                return {}
        return dict(sorted(found.items()))

    def make_folder(self, folder: str) -> None:
        with _storage_errors(f"make the folder {folder}"):
            (self._root / folder).mkdir(FOLDER_MODE, exist_ok=True)

    def rename_folder(self, folder: str, new: str) -> None:
        with _storage_errors(f"rename the folder {folder} to {new}"):
            (self._root / folder).rename(self._root / new)

    def delete_folder(self, folder: str) -> None:
        if folder:
            with _storage_errors(f"remove the folder {folder}"), contextlib.suppress(FileNotFoundError):
                shutil.rmtree(self._root / folder)

    def start_delete_folder(self, folder: str) -> None:
        if folder:
            self._remover.submit(shutil.rmtree, self._root / folder, ignore_errors=True)

    def open(self, name: str) -> RealFile:
        return RealFile(self._root / name, self._flusher, self._buffers, self.flushes, sync=self._sync)

    def read(self, name: str) -> bytes | None:
        with _storage_errors(f"read {name}"):
            try:
                return (self._root / name).read_bytes()
            except FileNotFoundError:
                return None

    def replace(self, name: str, content: Buffer, *, durable: bool = True, private: bool = False) -> None:
        path = self._root / name
        making = path.with_name(path.name + REPLACEMENT)
        mode = SECRET_MODE if private else FILE_MODE
        with _storage_errors(f"write {name}"):
            fd = os.open(making, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
            try:
                if private:  # a leftover file of a failed write may have another mode
                    os.fchmod(fd, mode)
                rest = memoryview(content)
                while rest:
                    rest = rest[os.write(fd, rest) :]
                if durable and self._sync:
                    os.fsync(fd)
            except OSError:
                making.unlink(missing_ok=True)  # free the space of the incomplete file: the disk may be full
                raise
            finally:
                os.close(fd)
            making.replace(path)
            if durable and self._sync:
                _fsync_folder(path.parent)

    def rename(self, name: str, new: str) -> None:
        with _storage_errors(f"rename {name} to {new}"):
            (self._root / name).replace(self._root / new)

    def delete(self, name: str) -> None:
        with _storage_errors(f"remove {name}"):
            (self._root / name).unlink(missing_ok=True)

    def start_delete(self, name: str) -> None:
        path = self._root / name
        deleted = path.with_name(path.name + DELETED)
        with _storage_errors(f"remove {name}"), contextlib.suppress(FileNotFoundError):
            path.replace(deleted)
            self._remover.submit(deleted.unlink, missing_ok=True)


def _fsync_file(fd: int, path: Path, new: bool) -> None:
    """Sync a file to the disk. For a new file also sync its folder, and the parent of this folder."""
    os.fsync(fd)
    if new:
        _fsync_folder(path.parent)
        _fsync_folder(path.parent.parent)


def _fsync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
