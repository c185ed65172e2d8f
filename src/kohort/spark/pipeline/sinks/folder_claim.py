"""Which pipeline an output folder belongs to: an empty file in it that names the owner.

The file is ``_kohort.OWNER``. Readers of Parquet pass over names that begin with ``_``; the file is empty
because Polars refuses a folder in which other files have content. A folder, the folders above it and the folders in it
have one owner. Members of one group that one pipeline runs may share a folder: names of their files end with their ids.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kohort.spark.pipeline.definition import Pipeline, Summary
from kohort.spark.pipeline.ledger import LedgerStore, last_run
from kohort.spark.pipeline.pipeline_owner import PipelineOwner, parse_owner
from kohort.spark.pipeline.sinks.parquet_folder import (
    DataFile,
    FolderOutput,
    ParquetFolder,
    SinkRefused,
    committed_upto,
    folder_of,
    rows_in,
)

_MARK: Final = "_kohort."


def claim_sink(pipeline: Pipeline, sink: FolderOutput) -> ParquetFolder:
    """Return the folder of a Parquet sink, which belongs to this pipeline from here on.

    Files without an owner, as earlier versions wrote them, are taken over where they hold the rows that the ledger of
    the checkpoint says. Raises SinkRefused where the folder belongs to another pipeline or to a former checkpoint.
    """
    folder, name = folder_of(pipeline, sink), f"sink {sink.name}"
    if folder.folders_of_before():
        raise SinkRefused(
            f"{name}: {sink.path} holds a folder for each micro-batch (batch=0 ...), as an earlier version wrote them, "
            "which would be a column for readers: remove them with kohort pipeline reset --outputs, or give another "
            "path"
        )
    _refuse_owners(folder, name)
    folder.recover()  # the note of a compaction is in the checkpoint: its files are this pipeline's
    nameless = _nameless(folder, name)
    if nameless:
        check_ledger(pipeline, sink, nameless)
    _mark(folder, name)
    work = folder.path / "_kohort"  # of an earlier version, where it was on this file system
    if nameless and work.is_dir():
        work.rename(folder.path / f"_kohort-{folder.owner.id}")
    folder.recover()
    if nameless:
        folder.adopt(file for file in folder.all_files() if not file.owner)
    return folder


def claim_summary(pipeline: Pipeline, summary: Summary) -> ParquetFolder:
    """Return the folder of a summary, which belongs to this pipeline from here on; what a former checkpoint or an
    earlier version left of the summary is removed. Raises SinkRefused where the folder holds anything else."""
    folder, name = folder_of(pipeline, summary), f"summary {summary.name}"
    former = _owned_ids(folder) - {folder.owner.id}
    stale = [file.path for file in folder.all_files() if file.owner in former]
    if stale:
        folder.remove(stale)
    _refuse_owners(folder, name)
    if _nameless(folder, name):
        raise SinkRefused(f"{name}: {summary.path} holds files of a sink: give another path")
    for path in _plain_summary(pipeline, summary):
        path.unlink(missing_ok=True)
    _mark(folder, name)
    return folder


@dataclass(frozen=True, slots=True)
class OwnRows:
    """Files in an output folder that belong to a pipeline. ``left``: why other files there stay."""

    folder: ParquetFolder
    files: list[Path]
    folders: list[Path]
    left: str = ""

    def remove(self) -> None:
        """Remove the rows, and the pipeline's name as the owner."""
        for old in self.folders:
            shutil.rmtree(old)
        self.folder.remove(self.files)
        for number in _owned_ids(self.folder):
            _remove_marks(self.folder.path, number)


def own_rows(pipeline: Pipeline, output: FolderOutput) -> OwnRows:
    """Return the files of a sink or a summary that this checkpoint of the pipeline wrote, or a former one."""
    folder = folder_of(pipeline, output)
    ids, everything, left = _owned_ids(folder), folder.all_files(), ""
    files = [file.path for file in everything if file.owner in ids]
    folders: list[Path] = []
    try:
        if isinstance(output, Summary):
            files += _plain_summary(pipeline, output)
        else:
            entries = {entry.batch for entry in LedgerStore(pipeline.state / "ledger").entries()}
            folders = [f for f in folder.folders_of_before() if f.name in {f"batch={number}" for number in entries}]
            nameless = [file for file in everything if not file.owner]
            if nameless:
                check_ledger(pipeline, output, nameless)
                files += [file.path for file in nameless]
    except SinkRefused as refused:
        left = str(refused)
    return OwnRows(folder, files, folders, left)


def _plain_summary(pipeline: Pipeline, summary: Summary) -> list[Path]:
    """Return the files of a summary of an earlier version, which Spark named.

    Raises SinkRefused where they do not have the rows of the last run: then they are not this summary.
    """
    files = sorted(summary.path.glob("part-*.parquet"))
    if not files:
        return []
    said, there = (last_run(pipeline) or {}).get("summaries", {}).get(summary.name), _rows(files)
    if there != said:
        raise SinkRefused(
            f"summary {summary.name}: {summary.path} holds {there:,} rows in files of Spark's ({files[0].name}), and "
            f"the last run of {pipeline.state} wrote {'none' if said is None else f'{said:,}'}: move them away, or "
            "give another path"
        )
    return [*files, *summary.path.glob("_SUCCESS"), *summary.path.glob(".*.crc")]


def owners_around(path: Path) -> Iterator[tuple[Path, PipelineOwner]]:
    """Yield each owner that a folder, a folder above it or a folder in it names, with the path of that folder."""
    whole = path.absolute()
    places = [found for place in whole.resolve().parents for found in place.glob(f"{_MARK}*")]
    for mark in (*places, *sorted(path.rglob(f"{_MARK}*"))):
        owner = parse_owner(mark.name.removeprefix(_MARK))
        if owner is not None:
            yield (path if mark.parent == path else mark.parent), owner


def _owned_ids(folder: ParquetFolder) -> set[str]:
    """Return the ids under which the pipeline of a folder has written there: of its checkpoint and of former ones."""
    here = {owner for place, owner in owners_around(folder.path) if place == folder.path}
    mine = folder.owner
    # Members in containers may have checkpoints of one path, each on its own volume.
    former = {owner.id for owner in here if owner.same_place(mine) and not owner.shares_with(mine)}
    return former | {owner.id for owner in here if owner.id == mine.id}


def _nameless(folder: ParquetFolder, name: str) -> list[DataFile]:
    """Return files that name no owner. Raises SinkRefused for a file whose owner the folder does not name."""
    files = folder.all_files()
    claimed = {folder.owner.id, *(o.id for place, o in owners_around(folder.path) if place == folder.path)}
    foreign = [file for file in files if file.owner and file.owner not in claimed]
    if foreign:
        raise SinkRefused(
            f"{name}: {foreign[0].path} is a file of another checkpoint ({foreign[0].owner}), and this is "
            f"{folder.owner}: move it away, or give another path"
        )
    return [file for file in files if not file.owner]


def _refuse_owners(folder: ParquetFolder, name: str) -> None:
    mine = folder.owner
    for place, other in owners_around(folder.path):
        if other.id == mine.id or (place == folder.path and other.shares_with(mine)):
            continue
        if place == folder.path and other.same_place(mine):
            if any(file.owner == other.id for file in folder.all_files()):
                raise SinkRefused(
                    f"{name}: {folder.path} holds rows of a former checkpoint of pipeline {mine.pipeline}, and the "
                    "new one would write them again: remove them with kohort pipeline reset --outputs, or give "
                    "another path"
                )
            _remove_marks(folder.path, other.id)
            continue
        where = "belongs to" if place == folder.path else f"and {place} overlap, which belongs to"
        raise SinkRefused(f"{name}: {folder.path} {where} {other}, and this is {mine}: give another path")


def _mark(folder: ParquetFolder, name: str) -> None:
    """Name the owner in the folder. Raises SinkRefused where another pipeline did so at the same moment."""
    mark = folder.path / f"{_MARK}{folder.owner.text}"
    if mark.exists():
        return
    folder.path.mkdir(parents=True, exist_ok=True)
    _remove_marks(folder.path, folder.owner.id)  # names of the same checkpoint at its former path
    mark.touch()
    try:
        _refuse_owners(folder, name)
    except SinkRefused:
        mark.unlink()
        raise


def _remove_marks(path: Path, number: str) -> None:
    for mark in path.glob(f"{_MARK}{number}.*"):
        mark.unlink(missing_ok=True)


def check_ledger(pipeline: Pipeline, sink: FolderOutput, files: list[DataFile]) -> None:
    """Raise SinkRefused unless complete micro-batches have the rows in these files that the ledger says."""
    upto = committed_upto(pipeline)
    said = Counter({e.batch: e.sinks.get(sink.name, 0) for e in LedgerStore(pipeline.state / "ledger").entries()})
    counts = "" if pipeline.stateful else sink.counts
    found: Counter[int] = Counter()
    merged: set[int] = set()
    for file in files:
        if file.last <= upto:
            found[file.first] += _rows([file.path], counts)
        if file.merged:
            merged |= set(range(file.first, file.last + 1))
    differs = any(found[b] != said[b] for b in range(upto + 1) if b not in merged)
    total, there, last = sum(said[b] for b in range(upto + 1)), sum(found.values()), max(f.last for f in files)
    if there and total == there and not differs and last <= upto + 1:
        return
    raise SinkRefused(
        f"sink {sink.name}: {sink.path} holds files without an owner, as earlier versions wrote them "
        f"({files[0].path.name}): {there:,} rows up to micro-batch {last}. The ledger of {pipeline.state} says "
        f"{total:,} rows up to micro-batch {upto}: move the files away, or give another path"
    )


def _rows(files: list[Path], counts: str = "") -> int:
    try:
        return rows_in(files, counts)
    except (OSError, ValueError, KeyError) as error:  # pyarrow's errors are among these
        raise SinkRefused(f"{files[0]} cannot be read: {error}") from None
