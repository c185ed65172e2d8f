"""Count the bytes that are read from files."""

from __future__ import annotations

from kohort.log.storage import MemoryFile, MemoryStorage


class CountedFile(MemoryFile):
    """A file that records the size of each read."""

    __slots__ = ("reads",)

    def __init__(self, data: bytearray) -> None:
        super().__init__(data)
        self.reads: list[int] = []

    def read(self, at, size):
        data = super().read(at, size)
        self.reads.append(len(data))
        return data


class CountedReads(MemoryStorage):
    """A storage that counts the bytes read from its files."""

    def __init__(self):
        super().__init__()
        self.read_bytes = 0
        self.make_folder("p-0")

    def open(self, name):
        storage = self

        class File(MemoryFile):
            def read(self, at, size):
                data = super().read(at, size)
                storage.read_bytes += len(data)
                return data

        return File(super().open(name)._data)
