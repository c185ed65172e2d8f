"""Replacement of segments by a compacted one; a crash leaves the old segments or the new one.

- ``N.log.cleaned`` is unfinished: the next start deletes it.
- ``N.log.swap`` is complete and flushed: the next start finishes the swap.
- ``N.log`` is in use.

The names are Kafka's. A compacted segment ends where the last replaced segment ended (compaction keeps the header of
the last batch), so the swap file identifies the segments to delete. Renames are not flushed: a journaling file system
keeps their order, and the content is on disk before the first rename.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kohort.errors import CorruptRecord
from kohort.log.batches import headers
from kohort.log.segment import Segment, segment_name
from kohort.log.storage import Storage
from kohort.notes import Note, info

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
INDEXES: Final = ("index", "timeindex")
NAME_DIGITS: Final = 20


def forget_cleaned(storage: Storage, folder: str, base_offset: int) -> None:
    """Delete the files of an unfinished compaction."""
    for ending in ("log", *INDEXES):
        storage.delete(f"{folder}/{segment_name(base_offset)}.{ending}{CLEANED}")


def begin_swap(storage: Storage, folder: str, made: Segment) -> None:
    """Rename the closed and flushed segment to ``.swap``. A StorageError changes nothing."""
    name = f"{folder}/{made.log_name}"
    storage.rename(f"{name}{CLEANED}", f"{name}{SWAP}")
    made.suffix = SWAP


def finish_swap(storage: Storage, folder: str, old: Sequence[Segment], made: Segment) -> None:
    """Delete the old files and rename the new ones. The next start finishes a failed swap."""
    for segment in old:
        segment.start_delete()
    stem = f"{folder}/{segment_name(made.base_offset)}"
    for ending in INDEXES:
        storage.rename(f"{stem}.{ending}{CLEANED}", f"{stem}.{ending}")
    storage.rename(f"{stem}.log{SWAP}", f"{stem}.log")
    made.suffix = ""


def finish_interrupted(storage: Storage, folder: str) -> list[Note]:
    """Finish each ``.swap`` file at a start; return notes."""
    notes = []
    for name in storage.files(folder):
        stem = name.removesuffix(f".log{SWAP}")
        if stem != name and len(stem) == NAME_DIGITS and stem.isdigit():
            notes.append(info(_finish(storage, folder, int(stem))))
    return notes


def _finish(storage: Storage, folder: str, base_offset: int) -> str:
    swap_name = f"{folder}/{segment_name(base_offset)}.log{SWAP}"
    end = _end_of(storage, swap_name, base_offset)
    gone = []
    for name in storage.files(folder):
        stem, _, ending = name.partition(".")
        replaced = len(stem) == NAME_DIGITS and stem.isdigit() and base_offset <= int(stem) < end
        if replaced and ending in {"log", "txnindex", *INDEXES}:
            storage.delete(f"{folder}/{name}")
            gone.append(name)
    storage.rename(swap_name, swap_name.removesuffix(SWAP))
    logs = sum(1 for name in gone if name.endswith(".log"))
    return f"finished an interrupted compaction: {segment_name(base_offset)}.log replaces {logs} segments"


def _end_of(storage: Storage, name: str, base_offset: int) -> int:
    end = base_offset + 1
    file = storage.open(name)
    try:
        for _, header in headers(file, 0, file.size):
            end = max(end, header.next_offset)
    except CorruptRecord:
        pass  # recovery checks this segment later
    finally:
        file.close()
    return end
