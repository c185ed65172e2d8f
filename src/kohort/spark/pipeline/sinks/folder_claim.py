"""Ownership of output folders by pipelines: an empty file ``_kohort.OWNER`` in the folder names the owner.

Parquet readers skip file names that start with ``_``; Polars also requires that the file is empty. The folder of one
owner must not be inside the folder of another owner. Group members that run the same pipeline may share a folder: the
name of each data file contains the id of the owner that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kohort.spark.pipeline.definition import Pipeline, Summary
from kohort.spark.pipeline.pipeline_owner import PipelineOwner, parse_owner
from kohort.spark.pipeline.sinks.parquet_folder import FolderOutput, ParquetFolder, SinkRefused, folder_of

_MARK: Final = "_kohort."


def claim_sink(pipeline: Pipeline, sink: FolderOutput) -> ParquetFolder:
    """Claim the folder of a Parquet sink for a pipeline, and complete an interrupted compaction.

    Raises SinkRefused if the folder belongs to another pipeline or to a previous checkpoint.
    """
    folder, name = folder_of(pipeline, sink), f"sink {sink.name}"
    _claim(folder, name)
    folder.recover()
    return folder


def claim_summary(pipeline: Pipeline, summary: Summary) -> ParquetFolder:
    """Claim the folder of a summary for a pipeline. Remove summary files that the pipeline wrote before a reset.

    Raises SinkRefused if the folder has files of another owner.
    """
    folder = folder_of(pipeline, summary)
    former = _owned_ids(folder) - {folder.owner.id}
    stale = [file.path for file in folder.all_files() if file.owner in former]
    if stale:
        folder.remove(stale)
    _claim(folder, f"summary {summary.name}")
    foreign = set(folder.path.glob("*.parquet")) - {file.path for file in folder.all_files()}
    if foreign:
        raise SinkRefused(
            f"summary {summary.name}: its folder has another Parquet file, {min(foreign)}. Programs that read "
            "the summary would also read this file. Move the file away, or give another path"
        )
    return folder


@dataclass(frozen=True, slots=True)
class OwnedFiles:
    folder: ParquetFolder
    files: list[Path]

    def remove(self) -> None:
        self.folder.remove(self.files)
        for number in _owned_ids(self.folder):
            _remove_marks(self.folder.path, number)


def owned_files(pipeline: Pipeline, output: FolderOutput) -> OwnedFiles:
    folder = folder_of(pipeline, output)
    ids = _owned_ids(folder)
    return OwnedFiles(folder, [file.path for file in folder.all_files() if file.owner in ids])


def owners_around(path: Path) -> Iterator[tuple[Path, PipelineOwner]]:
    """Yield (folder, owner) for each owner file in ``path``, in its parent folders and in its subfolders."""
    whole = path.absolute()
    marks = [found for parent in whole.resolve().parents for found in parent.glob(f"{_MARK}*")]
    for mark in (*marks, *sorted(path.rglob(f"{_MARK}*"))):
        owner = parse_owner(mark.name.removeprefix(_MARK))
        if owner is not None:
            yield (path if mark.parent == path else mark.parent), owner


def _owners_of(folder: ParquetFolder) -> set[PipelineOwner]:
    return {owner for place, owner in owners_around(folder.path) if place == folder.path}


def _owned_ids(folder: ParquetFolder) -> set[str]:
    """Return the ids of this pipeline in the folder's owner files: the current id, and ids from before a reset."""
    mine = folder.owner
    # Another group member may have the same checkpoint path, in a container with its own volume.
    return {
        owner.id
        for owner in _owners_of(folder)
        if owner.id == mine.id or (owner.same_place(mine) and not owner.shares_with(mine))
    }


def _claim(folder: ParquetFolder, name: str) -> None:
    """Create the owner file in a folder. Raises SinkRefused if the folder or a file has another owner."""
    _check_owners(folder, name)
    claimed = {folder.owner.id, *(owner.id for owner in _owners_of(folder))}
    foreign = next((file for file in folder.all_files() if file.owner not in claimed), None)
    if foreign is not None:
        raise SinkRefused(
            f"{name}: {foreign.path} has another owner (id {foreign.owner}), not {folder.owner}: move the file "
            "away, or give another path"
        )
    mark = folder.path / f"{_MARK}{folder.owner.text}"
    if mark.exists():
        return
    folder.path.mkdir(parents=True, exist_ok=True)
    # remove owner files that this checkpoint created before it was moved to another path
    _remove_marks(folder.path, folder.owner.id)
    mark.touch()
    try:
        _check_owners(folder, name)  # a second pipeline may have claimed the folder at the same time
    except SinkRefused:
        mark.unlink()
        raise


def _check_owners(folder: ParquetFolder, name: str) -> None:
    mine = folder.owner
    for place, other in owners_around(folder.path):
        if other.id == mine.id or (place == folder.path and other.shares_with(mine)):
            continue
        if place == folder.path and other.same_place(mine):
            if any(file.owner == other.id for file in folder.all_files()):
                raise SinkRefused(
                    f"{name}: {folder.path} has rows that pipeline {mine.pipeline} wrote with a former "
                    "checkpoint. This run would write the rows again. Remove the rows with kohort pipeline reset "
                    "--outputs, or give another path"
                )
            _remove_marks(folder.path, other.id)
            continue
        problem = "belongs to" if place == folder.path else f"overlaps {place}, which belongs to"
        raise SinkRefused(f"{name}: {folder.path} {problem} {other}, not to {mine}: give another path")


def _remove_marks(path: Path, number: str) -> None:
    for mark in path.glob(f"{_MARK}{number}.*"):
        mark.unlink(missing_ok=True)
