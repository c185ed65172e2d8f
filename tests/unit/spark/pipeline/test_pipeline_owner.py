"""Ownership of checkpoints and consumer groups: each belongs to one pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.errors import KohortError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.pipeline.definition import Pipeline
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.pipeline.pipeline_owner import PipelineOwner, claim_checkpoint, owner_of, parse_owner
from kohort.spark.pipeline.sources import refuse_other_owner
from kohort.spark.reading.group_commits import query_mark

PIPELINE = """\
name: NAME
source: {brokers: "localhost:9092", topics: [orders], group: g}
sinks: [{parquet: {path: OUT}}, {topic: {topic: copies}}]
checkpoint: CHECKPOINT
"""
P0 = TopicPartition("orders", 0)


def pipeline(file: Path, name: str = "orders", out: str = "out", checkpoint: str = "state") -> Pipeline:
    text = PIPELINE.replace("NAME", name).replace("OUT", out).replace("CHECKPOINT", checkpoint)
    file.write_text(text)
    return parse_pipeline(text, file, {})


def test_owner_id_of_a_checkpoint_is_kept_at_a_restart_and_changes_at_a_reset(tmp_path: Path) -> None:
    of = pipeline(tmp_path / "a.yaml")
    assert owner_of(of).id == ""

    first = claim_checkpoint(of)
    assert claim_checkpoint(of) == owner_of(of) == first
    (of.state / "owner.json").unlink()
    second = claim_checkpoint(of)

    assert second.id != first.id
    assert second.same_place(first)


@pytest.mark.parametrize("name", ["orders", "o" * 200])
def test_text_of_an_owner_is_a_valid_file_name_and_can_be_parsed(name: str) -> None:
    for checkpoint in ("state", "/" + "long/" * 100):
        of = parse_pipeline(PIPELINE.replace("NAME", name).replace("CHECKPOINT", checkpoint), Path("/a.yaml"), {})
        owner = owner_of(of)._replace(id="1f3c9a2b")

        assert parse_owner(owner.text) == owner
        assert len(f"_kohort.{owner.text}".encode()) <= 255
        assert not set("/=:") & set(owner.text)


def test_checkpoint_of_another_pipeline_file_with_other_sinks_is_rejected(tmp_path: Path) -> None:
    first = pipeline(tmp_path / "a.yaml")
    second = pipeline(tmp_path / "b.yaml", out="elsewhere")
    claim_checkpoint(first)

    with pytest.raises(KohortError) as refused:
        claim_checkpoint(second)

    message = (
        f"is the checkpoint of {tmp_path}/a.yaml. {tmp_path}/b.yaml lacks these sinks of that file: "
        f"parquet {tmp_path}/out"
    )
    assert message in str(refused.value)
    assert claim_checkpoint(first) == owner_of(first)


def test_checkpoint_is_accepted_after_its_pipeline_file_was_moved_copied_or_changed(tmp_path: Path) -> None:
    owner = claim_checkpoint(pipeline(tmp_path / "a.yaml"))

    assert claim_checkpoint(pipeline(tmp_path / "copy.yaml")) == owner, "a copy with the same sinks"
    assert claim_checkpoint(pipeline(tmp_path / "copy.yaml", out="elsewhere")) == owner, (
        "the same file with other sinks"
    )
    (tmp_path / "copy.yaml").unlink()
    assert claim_checkpoint(pipeline(tmp_path / "moved.yaml", out="third")) == owner


def test_error_of_a_damaged_owner_file_names_the_file(tmp_path: Path) -> None:
    of = pipeline(tmp_path / "a.yaml")
    claim_checkpoint(of)
    for text in ("", "[]", '{"id": "x"}'):
        (of.state / "owner.json").write_text(text)
        with pytest.raises(KohortError, match=r"owner\.json is damaged: expected id"):
            claim_checkpoint(of)


def test_group_of_another_pipeline_is_rejected_and_the_error_names_both_pipelines(tmp_path: Path) -> None:
    mine = pipeline(tmp_path / "a.yaml")
    theirs = claim_checkpoint(pipeline(tmp_path / "b.yaml", "other"))
    owner = claim_checkpoint(mine)

    for metadata in (query_mark(theirs.text), f"kohort-init:0123456789abcdef:{theirs.text}"):
        with pytest.raises(KohortError) as refused:
            refuse_other_owner(mine.stream, {P0: OffsetAndMetadata(7, metadata)}, owner)
        assert (
            f"source input: group g belongs to pipeline other (checkpoint {tmp_path}/state/other), not to "
            f"pipeline orders (checkpoint {tmp_path}/state/orders): see the metadata of the commit of orders-0"
        ) in str(refused.value)


def test_group_with_offsets_of_an_earlier_checkpoint_or_of_other_programs_is_accepted(tmp_path: Path) -> None:
    of = pipeline(tmp_path / "a.yaml")
    owner = claim_checkpoint(of)
    moved = PipelineOwner(owner.id, "renamed", "elsewhere")
    former = owner._replace(id="00000000")

    for metadata in (query_mark(owner.text), query_mark(moved.text), query_mark(former.text), query_mark(), "", "x:y"):
        refuse_other_owner(of.stream, {P0: OffsetAndMetadata(7, metadata)}, owner)
