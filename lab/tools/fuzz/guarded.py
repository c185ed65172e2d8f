"""Bytes at a page boundary: an access beyond them ends the process."""

from __future__ import annotations

import ctypes
import mmap

_libc = ctypes.CDLL(None, use_errno=True)
PROT_NONE, PROT_READ, PROT_WRITE = 0, 1, 2


class GuardedPages:
    """Room for ``most`` bytes between two inaccessible pages."""

    def __init__(self, most: int) -> None:
        page = mmap.PAGESIZE
        self.most = -(-most // page) * page
        self._map = mmap.mmap(-1, self.most + 2 * page)
        self._view = memoryview(self._map)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for guard in (self._address, self._address + page + self.most):
            if _libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), PROT_NONE):
                raise OSError(ctypes.get_errno(), "mprotect")
        self._start = page

    def at_end(self, data: bytes) -> memoryview:
        """Return ``data`` at the end, next to the inaccessible page."""
        end = self._start + self.most
        self._view[end - len(data) : end] = data
        return self._view[end - len(data) : end].toreadonly()

    def at_start(self, data: bytes) -> memoryview:
        """Return ``data`` at the start, next to the inaccessible page."""
        self._view[self._start : self._start + len(data)] = data
        return self._view[self._start : self._start + len(data)].toreadonly()
