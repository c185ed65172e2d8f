"""Replacement of segments by a compacted one; a crash leaves the old segments or the new one.

A compacted segment with base offset N has one of Kafka's file names:

- ``N.log.cleaned`` is incomplete: the next broker start deletes it.
- ``N.log.swap`` is complete and flushed: the next broker start finishes the swap.
- ``N.log`` is in use.

A compacted segment ends where the last replaced segment ended (compaction keeps the header of the last batch), so the
offsets in the swap file identify the segments to delete. Renames are not flushed: a journaling file system keeps their
order, and the content is on disk before the first rename.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
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
    """Rename the file of a closed and flushed segment to ``.swap``. A StorageError changes nothing."""
    name = f"{folder}/{made.log_name}"
    storage.rename(f"{name}{CLEANED}", f"{name}{SWAP}")
    made.suffix = SWAP


def finish_swap(storage: Storage, folder: str, old: Sequence[Segment], made: Segment) -> None:
    """Delete the files of the old segments and rename the new ones. The next broker start finishes a failed swap."""
    for segment in old:
        segment.start_delete()
    stem = f"{folder}/{segment_name(made.base_offset)}"
    for ending in INDEXES:
        storage.rename(f"{stem}.{ending}{CLEANED}", f"{stem}.{ending}")
    storage.rename(f"{stem}.log{SWAP}", f"{stem}.log")
    made.suffix = ""


def finish_interrupted(storage: Storage, folder: str) -> list[Note]:
    """Finish the swap of each ``.swap`` file when a log is opened; return notes."""
    stems = [name.removesuffix(f".log{SWAP}") for name in storage.files(folder) if name.endswith(f".log{SWAP}")]
    bases = [int(stem) for stem in stems if len(stem) == NAME_DIGITS and stem.isdigit()]
    return [info(_finish(storage, folder, base_offset)) for base_offset in bases]


def _finish(storage: Storage, folder: str, base_offset: int) -> str:
    swap_name = f"{folder}/{segment_name(base_offset)}.log{SWAP}"
    end = _end_of(storage, swap_name, base_offset)
    logs = 0
    for name in storage.files(folder):
        stem, _, ending = name.partition(".")
        replaced = len(stem) == NAME_DIGITS and stem.isdigit() and base_offset <= int(stem) < end
        if replaced and ending in {"log", "txnindex", *INDEXES}:
            storage.delete(f"{folder}/{name}")
            logs += ending == "log"
    storage.rename(swap_name, swap_name.removesuffix(SWAP))
    return f"finished an interrupted compaction: {segment_name(base_offset)}.log replaces {logs} segments"


def _end_of(storage: Storage, name: str, base_offset: int) -> int:
    end = base_offset + 1
    with closing(storage.open(name)) as file, suppress(CorruptRecord):  # recovery checks this segment later
        for _, header in headers(file, 0, file.size):
            end = max(end, header.next_offset)
    return end
