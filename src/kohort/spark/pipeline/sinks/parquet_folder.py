"""Files of a Parquet sink. The output folder has each row exactly once, and readers see no incomplete files.

Spark writes a micro-batch into a staging folder beside the checkpoint. The staged files are then renamed into the
output folder, in the folders of the partition columns: ``batch-0000000007-0000-1f3c9a2b.parquet``. The name starts with
the micro-batch and ends with the id of the checkpoint. So a run can remove the files of a micro-batch before Spark
repeats it, and keep the files of other checkpoints.

Small files of complete micro-batches are merged (``compact-0000000000-0000000099-1a2b3c4d-1f3c9a2b.parquet``). Before a
merged file is renamed into place, a note file lists its inputs: after an interruption, the next run or compaction
completes it.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kohort.errors import KohortError
from kohort.spark.pipeline.definition import Pipeline, Summary
from kohort.spark.pipeline.pipeline_owner import PipelineOwner, owner_of, write_and_fsync

if TYPE_CHECKING:
    import pyarrow as pa

_GROUP_BYTES: Final = 64 * 1024 * 1024


def rows_in(files: Sequence[Path], counts: str = "") -> int:
    """Return the number of source rows in Parquet files. ``counts``: column to sum up; "" to count the rows."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if not counts:
        return sum(pq.read_metadata(file).num_rows for file in files)
    return sum(int(pc.sum(pq.ParquetFile(file).read([counts])[counts]).as_py() or 0) for file in files)


def by_schema(files: Sequence[DataFile]) -> list[list[DataFile]]:
    import pyarrow.parquet as pq

    return [list(run) for _, run in groupby(files, key=lambda file: pq.read_schema(file.path).remove_metadata())]


def merge_files(files: Sequence[Path], target: Path) -> None:
    """Write the rows of ``files`` to the Parquet file ``target``, and fsync it.

    The files have equal schemas. Their rows keep the order of ``files``. The target keeps Spark's metadata.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = pq.ParquetFile(files[0])
    schema = first.schema_arrow
    pending: list[pa.RecordBatch] = []
    with pq.ParquetWriter(target, schema, compression=_compression(files[0]), store_schema=False) as writer:
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches():
                pending.append(batch)
                if sum(b.nbytes for b in pending) >= _GROUP_BYTES:
                    writer.write_table(pa.Table.from_batches(pending, pending[0].schema).cast(schema))
                    pending = []
        if pending:
            writer.write_table(pa.Table.from_batches(pending, pending[0].schema).cast(schema))
        notes = first.metadata.metadata or {}
        writer.add_key_value_metadata({k: v for k, v in notes.items() if k != b"ARROW:schema"})
    with target.open("rb") as written:
        os.fsync(written.fileno())


def _compression(file: Path) -> str:
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(file)
    empty = not metadata.num_row_groups or not metadata.num_columns
    found = "snappy" if empty else str(metadata.row_group(0).column(0).compression).lower()
    return "none" if found == "uncompressed" else found


LARGE_BYTES: Final = 128 * 1024 * 1024
"""Approximate maximum size of a merged file in bytes. Readers would split larger files."""

_OF_BATCH: Final = re.compile(r"batch-(\d+)-\d+-([0-9a-f]{8})\.parquet")
_LATEST: Final = re.compile(r"latest-\d+-of-\d+-([0-9a-f]{8})\.parquet")
_MERGED: Final = re.compile(r"compact-(\d+)-(\d+)-[0-9a-f]{8}-([0-9a-f]{8})\.parquet")


class SinkRefused(KohortError):
    pass


class FolderOutput(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...


class DataFile(NamedTuple):
    """Data file of a Parquet sink: first and last micro-batch with rows in the file, and the id of the owner.

    The file of a latest sink has rows of any micro-batch: its numbers are -1.
    """

    path: Path
    first: int
    last: int
    owner: str


@dataclass(frozen=True, slots=True)
class Compacted:
    files: int = 0
    into: int = 0


class ParquetFolder:
    """Files of one owner in the output folder ``path``. ``work``: the owner's staging folder, which readers skip."""

    def __init__(self, path: Path, work: Path, owner: PipelineOwner) -> None:
        self.path = path
        self.owner = owner
        self._work = work
        self._begun: int | None = None

    @property
    def staging(self) -> Path:
        return self._work / "staging"

    def data_files(self) -> list[DataFile]:
        return [file for file in self.all_files() if file.owner == self.owner.id]

    def all_files(self) -> list[DataFile]:
        found = []
        for path in self.path.rglob("*.parquet"):
            if self._work in path.parents:
                continue
            one, several = _OF_BATCH.fullmatch(path.name), _MERGED.fullmatch(path.name)
            if one:
                found.append(DataFile(path, int(one[1]), int(one[1]), one[2]))
            elif latest := _LATEST.fullmatch(path.name):
                found.append(DataFile(path, -1, -1, latest[1]))
            elif several:
                found.append(DataFile(path, int(several[1]), int(several[2]), several[3]))
        return sorted(found, key=lambda file: (file.first, file.last, file.path))

    def remove(self, files: Collection[Path]) -> None:
        for path in files:
            path.unlink(missing_ok=True)
        shutil.rmtree(self._work, ignore_errors=True)
        of_partitions = {folder for path in files for folder in path.parents if self.path in folder.parents}
        for folder in sorted(of_partitions, reverse=True):
            with suppress(OSError):  # rmdir() fails for a folder that is not empty
                folder.rmdir()

    def begin(self, batch: int) -> None:
        """Remove the files of this micro-batch and of later micro-batches. Spark will repeat these micro-batches.

        Lists the folder only at the first micro-batch of a run and at a repeated micro-batch. Raises SinkRefused if a
        merged file has rows of these micro-batches.
        """
        before, self._begun = self._begun, batch
        if before is not None and batch == before + 1:
            return
        shutil.rmtree(self.staging, ignore_errors=True)
        repeated = [file for file in self.data_files() if file.last >= batch]
        for file in repeated:
            if _MERGED.fullmatch(file.path.name):
                raise SinkRefused(
                    f"{file.path} has rows up to micro-batch {file.last}, but the checkpoint continues at "
                    f"micro-batch {batch}: the file is from another checkpoint. Remove files and checkpoint with "
                    "kohort pipeline reset --outputs"
                )
        for file in repeated:
            file.path.unlink(missing_ok=True)

    def publish(self, batch: int) -> list[Path]:
        """Rename the staged files of a micro-batch into the output folder. Return the new paths."""
        return list(self.publishing(batch))

    def publishing(self, batch: int) -> Iterator[Path]:
        """Rename the staged files. Yield each renamed file, so that a test can stop between two files."""
        staged = sorted(p for p in self.staging.rglob("*.parquet") if not p.name.startswith((".", "_")))
        for number, source in enumerate(staged):
            folder = self.path / source.parent.relative_to(self.staging)
            folder.mkdir(parents=True, exist_ok=True)
            target = folder / f"batch-{batch:010d}-{number:04d}-{self.owner.id}.parquet"
            source.replace(target)
            yield target
        self.path.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.staging, ignore_errors=True)

    def recover(self) -> None:
        with self._exclusive_lock() as mine:
            if mine:
                self._complete_compaction()

    def compact(self, upto: int, *, large: int = LARGE_BYTES) -> Compacted | None:
        """Merge small files into files of about ``large`` bytes. ``upto``: last micro-batch whose files are merged.

        Returns None if another process is compacting the folder.
        """
        with self._exclusive_lock() as mine:
            if not mine:
                return None
            self._complete_compaction()
            done = [f for f in self.data_files() if f.last <= upto]
            groups = [part for group in groups_to_merge(done, large) for part in by_schema(group) if len(part) > 1]
            for group in groups:
                for _ in self.merging(group):
                    pass
            return Compacted(sum(map(len, groups)), len(groups))

    def merging(self, group: Sequence[DataFile]) -> Iterator[str]:
        """Merge data files of one folder and schema. Yield after each change on disk, where tests can stop."""
        first, last = min(f.first for f in group), max(f.last for f in group)
        name = f"compact-{first:010d}-{last:010d}-{uuid.uuid4().hex[:8]}-{self.owner.id}.parquet"
        output = group[0].path.with_name(name)
        staged = self._work / output.name
        merge_files([f.path for f in group], staged)
        yield "merged"
        note = {"output": self._relative(output), "inputs": [self._relative(f.path) for f in group]}
        write_and_fsync(self._note, json.dumps(note))
        yield "noted"
        staged.replace(output)
        yield "in place"
        for file in group:
            file.path.unlink(missing_ok=True)
            yield "an input is removed"
        self._note.unlink()

    @property
    def _note(self) -> Path:
        return self._work / "compaction.json"

    def _complete_compaction(self) -> None:
        """Complete an interrupted compaction from its note file, which lists the merged file and the input files."""
        if not self._note.exists():
            for incomplete in self._work.glob("*.parquet"):  # the compaction has no note file yet
                incomplete.unlink(missing_ok=True)
            return
        try:
            note = json.loads(self._note.read_text())
            output, inputs = self.path / note["output"], [self.path / name for name in note["inputs"]]
        except (ValueError, KeyError, TypeError) as error:
            raise SinkRefused(
                f"the compaction of {self.path} cannot continue: the note file {self._note} is damaged: {error}"
            ) from None
        if (staged := self._work / output.name).exists():
            staged.replace(output)
        if output.exists():
            for path in inputs:
                path.unlink(missing_ok=True)
        self._note.unlink()

    def _relative(self, path: Path) -> str:
        return str(path.relative_to(self.path))

    @contextmanager
    def _exclusive_lock(self) -> Iterator[bool]:
        self._work.mkdir(parents=True, exist_ok=True)
        with (self._work / "lock").open("a") as pending:
            try:
                fcntl.flock(pending, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True


def folder_of(pipeline: Pipeline, sink: FolderOutput) -> ParquetFolder:
    """Return the output folder of a Parquet sink or a summary, with a staging folder on the same file system."""
    owner = owner_of(pipeline)
    work = pipeline.state / "sinks" / sink.name
    if isinstance(sink, Summary):
        # group members share the folder of a Parquet sink, but each member needs its own folder for a summary
        owner, work = (owner._replace(group=""), pipeline.state / "summaries" / sink.name)
    if _device(sink.path) != _device(work):
        work = sink.path / f"_kohort-{owner.id}"  # Parquet readers skip names that start with _
    return ParquetFolder(sink.path, work, owner)


def committed_upto(pipeline: Pipeline) -> int:
    """Return the number of the last complete micro-batch in Spark's checkpoint; -1 if no micro-batch is complete."""
    commits = (pipeline.state / "spark" / "commits").glob("*")
    return max((int(path.name) for path in commits if path.name.isdigit()), default=-1)


def groups_to_merge(files: Iterable[DataFile], large: int) -> list[list[DataFile]]:
    """Return groups of small data files to merge. A group has files of one folder, of about ``large`` bytes in total.

    Older files come first. Omits files of at least ``large`` / 2 bytes, and groups with a single file.
    """
    folders: dict[Path, list[DataFile]] = {}
    for file in files:
        folders.setdefault(file.path.parent, []).append(file)
    groups = []
    for found in folders.values():
        group: list[DataFile] = []
        size = 0
        for file in found:
            own = file.path.stat().st_size
            if own >= large // 2:
                continue
            if group and size + own > large:
                groups.append(group)
                group, size = [], 0
            group.append(file)
            size += own
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def _device(path: Path) -> int:
    return next(p.stat().st_dev for p in (path, *path.absolute().parents) if p.exists())
