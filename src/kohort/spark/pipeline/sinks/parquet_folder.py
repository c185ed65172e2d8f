"""The files of a Parquet sink: each row of a micro-batch there once, and nothing but data for readers to find.

Spark writes a micro-batch into a staging folder beside the checkpoint; its files are then renamed into the output
folder, in the folders of the partition columns: ``batch-0000000007-0000-1f3c9a2b.parquet``. The name begins with the
micro-batch and ends with the id of the checkpoint. So a run knows the files of a micro-batch that it must
repeat, removes them before Spark repeats it, and leaves the files of other checkpoints alone. Readers see no column
more, and no folder for each micro-batch.

Many small files are merged into few (``compact-0000000000-0000000099-1a2b3c4d-1f3c9a2b.parquet``), of complete
micro-batches only. A note names the inputs of a merged file before it is renamed into place: the next run or the next
compaction completes what a crash interrupts.
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
from kohort.spark.pipeline.pipeline_owner import PipelineOwner, owner_of, write_durably

if TYPE_CHECKING:
    import pyarrow as pa

_GROUP_BYTES: Final = 64 * 1024 * 1024
"""About how much of a merged file is in memory at once, and then one row group."""


def rows_in(files: Sequence[Path], counts: str = "") -> int:
    """Return the rows of these files; with ``counts``, the sum of that column, which says how many rows each stands
    for."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if not counts:
        return sum(pq.read_metadata(file).num_rows for file in files)
    return sum(int(pc.sum(pq.ParquetFile(file).read([counts])[counts]).as_py() or 0) for file in files)


def by_schema(files: Sequence[Path]) -> list[list[Path]]:
    """Group neighbours whose columns are the same: only those can be one file."""
    import pyarrow.parquet as pq

    return [list(run) for _, run in groupby(files, key=lambda file: pq.read_schema(file).remove_metadata())]


def merge_files(files: Sequence[Path], target: Path) -> None:
    """Write the rows of files of one schema to ``target``, in their order, with the notes that Spark made in them.

    It is on the disk when this returns.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = pq.ParquetFile(files[0])
    schema = first.schema_arrow
    held: list[pa.RecordBatch] = []
    with pq.ParquetWriter(target, schema, compression=_compression(files[0]), store_schema=False) as writer:
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches():
                held.append(batch)
                if sum(b.nbytes for b in held) >= _GROUP_BYTES:
                    writer.write_table(pa.Table.from_batches(held, held[0].schema).cast(schema))
                    held = []
        if held:
            writer.write_table(pa.Table.from_batches(held, held[0].schema).cast(schema))
        notes = first.metadata.metadata or {}
        writer.add_key_value_metadata({k: v for k, v in notes.items() if k != b"ARROW:schema"})
    with target.open("rb") as written:
        os.fsync(written.fileno())


def _compression(file: Path) -> str:
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(file)
    if not metadata.num_row_groups or not metadata.num_columns:
        return "snappy"
    found = str(metadata.row_group(0).column(0).compression).lower()
    return {"uncompressed": "none"}.get(found, found)


LARGE_BYTES: Final = 128 * 1024 * 1024
"""About how large a merged file becomes. Readers split larger ones anyway, and each file costs them some ms."""

_OF_BATCH: Final = re.compile(r"batch-(\d+)-\d+(?:-([0-9a-f]{8}))?\.parquet")
_MERGED: Final = re.compile(r"compact-(\d+)-(\d+)-[0-9a-f]{8}(?:-([0-9a-f]{8}))?\.parquet")


class SinkRefused(KohortError):
    """A sink that cannot take this run's rows without mixing or losing some."""


class FolderOutput(Protocol):
    """A Parquet sink or a summary."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def counts(self) -> str: ...


class DataFile(NamedTuple):
    """A file of the output, the micro-batches whose rows it holds, and the id of its owner; ``""``: none is named."""

    path: Path
    first: int
    last: int
    owner: str

    @property
    def merged(self) -> bool:
        return _MERGED.fullmatch(self.path.name) is not None


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did."""

    files: int = 0
    into: int = 0


class ParquetFolder:
    """The files of one owner in the output folder ``path``; ``work``: a folder of the owner that readers do not see."""

    def __init__(self, path: Path, work: Path, owner: PipelineOwner) -> None:
        self.path = path
        self.owner = owner
        self._work = work
        self._begun: int | None = None

    @property
    def staging(self) -> Path:
        """Where Spark writes a micro-batch before it is published."""
        return self._work / "staging"

    def data_files(self) -> list[DataFile]:
        """Return the owner's files of micro-batches, of all partitions, oldest first."""
        return [file for file in self.all_files() if file.owner == self.owner.id and self.owner.id]

    def all_files(self) -> list[DataFile]:
        """Return the files of micro-batches of any owner, oldest first."""
        found = []
        for path in self.path.rglob("*.parquet"):
            if self._work in path.parents:
                continue
            one, several = _OF_BATCH.fullmatch(path.name), _MERGED.fullmatch(path.name)
            if one:
                found.append(DataFile(path, int(one[1]), int(one[1]), one[2] or ""))
            elif several:
                found.append(DataFile(path, int(several[1]), int(several[2]), several[3] or ""))
        return sorted(found, key=lambda file: (file.first, file.last, file.path))

    def adopt(self, files: Iterable[DataFile]) -> None:
        """Give files that name no owner the names of this owner's."""
        for file in files:
            with suppress(FileNotFoundError):  # kohort pipeline compact renamed it
                file.path.rename(file.path.with_name(f"{file.path.stem}-{self.owner.id}.parquet"))

    def folders_of_before(self) -> list[Path]:
        """Return the folders for each micro-batch (``batch=7``) that the first version made."""
        return sorted(done.parent for done in self.path.glob("batch=*/_SUCCESS"))

    def remove(self, files: Collection[Path]) -> None:
        """Remove these files of the folder, and the folders that are then empty; nothing else."""
        for path in files:
            path.unlink(missing_ok=True)
        shutil.rmtree(self._work, ignore_errors=True)
        of_partitions = {folder for path in files for folder in path.parents if self.path in folder.parents}
        for folder in sorted(of_partitions, reverse=True):
            with suppress(OSError):  # not empty
                folder.rmdir()

    def begin(self, batch: int) -> None:
        """Take out what is there of this micro-batch, and of later ones: Spark is about to do them, or do them again.

        The folder is looked through when a run begins and when a micro-batch is repeated, not for each. Raises
        SinkRefused where rows of such micro-batches were merged with others.
        """
        before, self._begun = self._begun, batch
        if before is not None and batch == before + 1:
            return
        shutil.rmtree(self.staging, ignore_errors=True)
        repeated = [file for file in self.data_files() if file.last >= batch]
        for file in repeated:
            if file.merged:
                raise SinkRefused(
                    f"{file.path} holds rows of micro-batches up to {file.last}, and the checkpoint goes back to "
                    f"{batch}: it is not the checkpoint of these rows. Remove both: kohort pipeline reset --outputs"
                )
        for file in repeated:
            file.path.unlink(missing_ok=True)

    def publish(self, batch: int) -> list[Path]:
        """Rename the staged files into the output folder; they are the rows of this micro-batch. Returns them."""
        return list(self.publishing(batch))

    def publishing(self, batch: int) -> Iterator[Path]:
        """Publish one file after the other, so that a test can stop between any two, as a crash would."""
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
        """Complete a compaction that was interrupted, unless another process is at it."""
        with self._alone() as mine:
            if mine:
                self._complete_compaction()

    def compact(self, upto: int, *, large: int = LARGE_BYTES) -> Compacted | None:
        """Merge small files of micro-batches up to ``upto``, which must be complete, into files of about ``large``
        bytes. None where another process is at it."""
        with self._alone() as mine:
            if not mine:
                return None
            self._complete_compaction()
            done = [f for f in self.data_files() if f.last <= upto]
            groups = [part for group in groups_to_merge(done, large) for part in _of_one_schema(group) if len(part) > 1]
            for group in groups:
                for _ in self.merging(group):
                    pass
            return Compacted(sum(map(len, groups)), len(groups))

    def merging(self, group: Sequence[DataFile]) -> Iterator[str]:
        """Merge files of one folder and one schema into one, step by step: a test may stop between any two."""
        first, last = min(f.first for f in group), max(f.last for f in group)
        name = f"compact-{first:010d}-{last:010d}-{uuid.uuid4().hex[:8]}-{self.owner.id}.parquet"
        output = group[0].path.with_name(name)
        staged = self._work / output.name
        merge_files([f.path for f in group], staged)
        yield "merged"
        note = {"output": self._relative(output), "inputs": [self._relative(f.path) for f in group]}
        write_durably(self._note, json.dumps(note))
        yield "noted"
        staged.replace(output)
        yield "in place"
        for file in group:
            file.path.unlink(missing_ok=True)
            yield "an input is gone"
        self._note.unlink()

    @property
    def _note(self) -> Path:
        return self._work / "compaction.json"

    def _complete_compaction(self) -> None:
        """Do what the note says, whatever of it is done already."""
        if not self._note.exists():
            for left in self._work.glob("*.parquet"):  # merged, but not yet noted
                left.unlink(missing_ok=True)
            return
        try:
            note = json.loads(self._note.read_text())
            output, inputs = self.path / note["output"], [self.path / name for name in note["inputs"]]
        except (ValueError, KeyError, TypeError) as error:
            raise SinkRefused(
                f"{self._note} says which files of {self.path} were merged, and is damaged: {error}"
            ) from None
        staged = self._work / output.name
        if staged.exists():
            staged.replace(output)
        if output.exists():
            for path in inputs:
                path.unlink(missing_ok=True)
        self._note.unlink()

    def _relative(self, path: Path) -> str:
        return str(path.relative_to(self.path))

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        self._work.mkdir(parents=True, exist_ok=True)
        with (self._work / "lock").open("a") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True


def folder_of(pipeline: Pipeline, sink: FolderOutput) -> ParquetFolder:
    """Return the folder of a Parquet sink or of a summary. Spark stages files on the file system of the folder, since
    they are renamed."""
    owner = owner_of(pipeline)
    work = pipeline.state / "sinks" / sink.name
    if isinstance(sink, Summary):
        owner, work = owner._replace(group=""), pipeline.state / "summaries" / sink.name  # of one run, never shared
    if _device(sink.path) != _device(work):
        work = sink.path / f"_kohort-{owner.id}"  # readers pass over names that begin with _
    return ParquetFolder(sink.path, work, owner)


def committed_upto(pipeline: Pipeline) -> int:
    """Return the last micro-batch that Spark knows to be complete, by its checkpoint; -1 if there is none."""
    commits = (pipeline.state / "spark" / "commits").glob("*")
    return max((int(path.name) for path in commits if path.name.isdigit()), default=-1)


def groups_to_merge(files: Iterable[DataFile], large: int) -> list[list[DataFile]]:
    """Return files of one folder that together are no more than about ``large`` bytes, oldest first; none of one file
    alone, and none of half that size already."""
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


def _of_one_schema(group: Sequence[DataFile]) -> list[list[DataFile]]:
    known = {file.path: file for file in group}
    return [[known[path] for path in run] for run in by_schema(list(known))]


def _device(path: Path) -> int:
    return next(p.stat().st_dev for p in (path, *path.absolute().parents) if p.exists())
