"""Owners of output folders and groups. An owner is a pipeline with its checkpoint.

The owner's id is a random number in the checkpoint's file ``owner.json``. So the owner stays the same if the checkpoint
is moved, and a reset of the checkpoint creates a new owner. The name of each data file ends with the owner's id. Output
folders and commits contain the owner's id, pipeline and checkpoint, so that an error can name both pipelines of a
conflict.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from kohort.errors import KohortError
from kohort.spark.pipeline.definition import Pipeline


def write_and_fsync(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    with fresh.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)


_FILE: Final = "owner.json"
_TEXT: Final = re.compile(r"([0-9a-f]{8})\.([A-Za-z0-9_~-]+)\.([0-9a-f]{8}|-)\.([^/]+)")
_LONGEST_NAME: Final = 60
_LONGEST_PATH: Final = 150
"""Maximum length of the checkpoint path in the name of an owner file. File names have at most 255 bytes."""


class PipelineOwner(NamedTuple):
    """Owner of outputs: a pipeline and its checkpoint.

    ``group``: digest of the group whose members may share output folders; "" if folders are not shared.
    """

    id: str
    pipeline: str
    checkpoint: str
    group: str = ""

    @property
    def text(self) -> str:
        return f"{self.id}.{self.pipeline}.{self.group or '-'}.{self.checkpoint}"

    def __str__(self) -> str:
        return f"pipeline {self.pipeline} (checkpoint {unquote(self.checkpoint)})"

    def same_place(self, other: PipelineOwner) -> bool:
        return (self.pipeline, self.checkpoint) == (other.pipeline, other.checkpoint)

    def shares_with(self, other: PipelineOwner) -> bool:
        return bool(self.group) and (self.pipeline, self.group) == (other.pipeline, other.group)


def parse_owner(text: str) -> PipelineOwner | None:
    found = _TEXT.fullmatch(text)
    return PipelineOwner(found[1], found[2], found[4], "" if found[3] == "-" else found[3]) if found else None


def owner_of(pipeline: Pipeline) -> PipelineOwner:
    """Return the owner stored in the pipeline's checkpoint. The owner's id is "" before the first run.

    The id is also "" after a reset.
    """
    return _owner(pipeline, str(_read(pipeline).get("id", "")))


def claim_checkpoint(pipeline: Pipeline) -> PipelineOwner:
    """Return the owner stored in the pipeline's checkpoint. Store an owner there at the first run.

    Raises KohortError if the checkpoint belongs to other topics or to another group. Also raises
    KohortError if another existing pipeline file with other sinks uses the checkpoint: each pipeline would write only a
    part of the rows.
    """
    _check_sources(pipeline)
    known, file = _read(pipeline), str(pipeline.file.absolute())
    sinks = sorted(f"{s.kind} {s.folder.absolute() if s.folder else s.place}".strip() for s in pipeline.sinks)
    lacking = sorted(set(known.get("sinks", ())) - set(sinks))
    before = str(known.get("file", file))
    if before != file and lacking and Path(before).exists():
        raise KohortError(
            f"{pipeline.state} is the checkpoint of {before}. {file} lacks these sinks of that file: "
            f"{', '.join(lacking)}. Give one pipeline another name or checkpoint, or remove one of the "
            "files"
        )
    number = str(known.get("id") or uuid.uuid4().hex[:8])
    fresh = {"id": number, "file": file, "sinks": sinks}
    if fresh != known:
        write_and_fsync(pipeline.state / _FILE, json.dumps(fresh))
    return _owner(pipeline, number)


def _owner(pipeline: Pipeline, number: str) -> PipelineOwner:
    members = [s.group for s in pipeline.streams if s.member]
    group = hashlib.sha256(members[0].encode()).hexdigest()[:8] if members else ""
    path = quote(os.path.realpath(pipeline.state), safe="")
    return PipelineOwner(number, _short(pipeline.name, _LONGEST_NAME), _short(path, _LONGEST_PATH), group)


def _short(text: str, most: int) -> str:
    """Shorten a text to ``most`` characters: a digest of the whole text, then the end of the text."""
    if len(text) <= most:
        return text
    return f"~{hashlib.sha256(text.encode()).hexdigest()[:8]}~{text[10 - most :]}"


def _check_sources(pipeline: Pipeline) -> None:
    identity: dict[str, Any] = {"topics": list(pipeline.stream.topics), "group": pipeline.stream.group}
    if len(pipeline.streams) > 1:
        identity["topics"] = [topic for source in pipeline.streams for topic in source.topics]
        identity["group"] = ", ".join(source.group for source in pipeline.streams if source.group)
    target = pipeline.state / "source.json"
    if not target.exists():
        write_and_fsync(target, json.dumps(identity))
        return
    before = json.loads(target.read_text())
    if before != identity:
        raise KohortError(
            f"{pipeline.state} is the checkpoint for topics {before['topics']} and group "
            f"{before['group'] or '(none)'}, but the pipeline now has topics {identity['topics']} and "
            f"group {identity['group'] or '(none)'}. Remove the checkpoint with kohort pipeline reset, or "
            "give the pipeline another name"
        )


def _read(pipeline: Pipeline) -> dict[str, Any]:
    target = pipeline.state / _FILE
    try:
        found = json.loads(target.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        found = error
    if not isinstance(found, dict) or not re.fullmatch("[0-9a-f]{8}", str(found.get("id"))):
        raise KohortError(f"{target} is damaged: expected id, file and sinks of pipeline {pipeline.name}")
    return found
