"""kohort pipeline, as far as it needs neither Spark nor a broker that answers."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("yaml")

from kohort.cli.main import main
from kohort.spark.pipeline.ledger import Count, Entry, LedgerStore


def run(*args: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["pipeline", *args])
    assert result.exit_code == code, result.output
    return result.output


def test_the_file_to_begin_with_is_valid_and_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "sales.yaml"

    run("init", str(file), "--topic", "orders")
    began = time.perf_counter()
    said = json.loads(run("validate", str(file), "--output", "json"))

    assert time.perf_counter() - began < 1
    assert said == {
        "name": "sales",
        "valid": True,
        "sources": {"input": "stream"},
        "sinks": {"parquet": "parquet"},
        "tests": 1,
    }
    assert "is there already" in run("init", str(file), code=1)


def test_what_is_wrong_has_its_line_and_what_may_be_meant(tmp_path: Path) -> None:
    file = tmp_path / "sales.yaml"
    run("init", str(file))
    file.write_text(file.read_text().replace("checkpoint:", "chekpoint:"))

    assert "line 26: unknown key 'chekpoint' in the file; did you mean checkpoint?" in run(
        "validate", str(file), code=1
    )


def test_status_and_reset_of_a_pipeline_that_has_run(tmp_path: Path) -> None:
    file = tmp_path / "sales.yaml"
    run("init", str(file))
    state, out = tmp_path / "state" / "sales", tmp_path / "out" / "sales"
    file.write_text(file.read_text().replace("localhost:9092", "127.0.0.1:1"))
    assert "has no checkpoint" in run("reset", str(file))

    LedgerStore(state / "ledger").write(Entry(0, rows_in=Count(7, 1), dead_letters=2))
    (out / "batch=0").mkdir(parents=True)
    (out / "kept.txt").write_text("mine")

    assert "Give --yes" in run("reset", str(file), code=2)
    run("reset", str(file), "--outputs", "--yes")
    assert not state.exists()
    assert [p.name for p in out.iterdir()] == ["kept.txt"]
