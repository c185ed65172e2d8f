from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

pytest.importorskip("yaml")

from kohort import Admin, Broker, KohortError, Producer
from kohort.cli.main import main
from kohort.cli.pipeline.run import ledger_lines
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.pipeline.ledger import Count, Entry, Ledger, LedgerStore

if TYPE_CHECKING:
    from kohort.spark.pipeline.sinks.parquet_folder import ParquetFolder


def run(*args: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["pipeline", *args])
    assert result.exit_code == code, result.output
    return result.output


def test_pipeline_init_writes_valid_file_and_never_overwrites(tmp_path: Path) -> None:
    file = tmp_path / "sales.yaml"

    run("init", str(file), "--topic", "orders")
    output = json.loads(run("validate", str(file), "--output", "json"))

    assert output == {
        "schema": "kohort/v1/pipeline.validate",
        "name": "sales",
        "valid": True,
        "sources": {"input": "stream"},
        "sinks": {"parquet": "parquet"},
        "tests": 1,
    }
    assert "exists already" in run("init", str(file), code=1)


def test_pipeline_validate_reports_line_and_nearest_name(tmp_path: Path) -> None:
    file = tmp_path / "sales.yaml"
    run("init", str(file))
    file.write_text(file.read_text().replace("checkpoint:", "chekpoint:"))

    assert "line 26: unknown key 'chekpoint' in the file; did you mean checkpoint?" in run(
        "validate", str(file), code=2
    )


MEMBER = """\
name: orders
brokers: 127.0.0.1:1
source: {topics: [orders], group: g, group_mode: member}
sinks: [{noop: }]
trigger: {every: 2 seconds}
"""


def test_pipeline_run_until_caught_up_is_rejected_with_group_mode_member(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(MEMBER)

    assert "orders.yaml, line 3: group_mode: member needs a continuous run" in run(
        "run", str(file), "--until-caught-up", code=2
    )


def test_pipeline_status_counts_redelivered_rows(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(MEMBER)
    ledger = LedgerStore(tmp_path / "state" / "orders" / "ledger")
    ledger.write(Entry(0, rows_in=Count(7, 1)))
    ledger.write(Entry(1, rows_in=Count(5, 1), redelivered=3))

    lines = run("status", str(file)).splitlines()

    assert [line.partition(": ")[2] for line in lines if "  batch" in line] == [
        "7 rows, 0 dead letters",
        "5 rows, re-delivered 3, 0 dead letters",
    ]
    output = json.loads(run("status", str(file), "--output", "json"))
    assert [batch["redelivered"] for batch in output["batches"]] == [0, 3]


def test_pipeline_ledger_counts_redelivered_rows() -> None:
    from kohort.spark.pipeline.running.run import RunReport

    ledger = Ledger(rows_in=1200, redelivered=40, batches=2, sinks={"table": 1200})

    assert ledger_lines(RunReport("orders", ledger, seconds=1.5)) == [
        "pipeline orders: 1,200 rows in, re-delivered 40, 2 batches, 1.5 s",
        "  sink table: 1,200 in = 1,200 out + 0 dead letters",
    ]


def test_pipeline_status_shows_running_process_and_reset_is_refused(tmp_path: Path) -> None:
    from kohort.spark.pipeline.parse import load_pipeline
    from kohort.spark.pipeline.running.process import exclusive_run

    file = tmp_path / "orders.yaml"
    file.write_text(MEMBER)
    assert "has not run yet" in run("status", str(file))

    with exclusive_run(load_pipeline(file)):
        output = run("status", str(file))
        assert "is running: stop process" in run("reset", str(file), "--yes", code=5)
        assert json.loads(run("status", str(file), "--output", "json"))["running"]["pid"] == os.getpid()

    assert f", process {os.getpid()} on " in output
    assert "running since 20" in output
    assert "no micro-batch is complete yet" in output


def test_pipeline_run_prints_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from kohort.cli.pipeline.run import Progress
    from kohort.spark.pipeline.parse import load_pipeline

    file = tmp_path / "orders.yaml"
    file.write_text(MEMBER.replace("group_mode: member", "limit: {rows: 60000}"))
    pipeline = load_pipeline(file)

    now = 0.0
    with Progress(pipeline, 500_000, finite=True, quiet=False, now=lambda: now) as progress:
        now = 1000.0
        progress.entry_done(Entry(0, rows_in=Count(60_000), dead_letters=12))
        now = 1600.0
        progress.entry_done(Entry(1, rows_in=Count(60_000)))
    with Progress(pipeline, 3, finite=False, quiet=False) as progress:
        progress.entry_done(Entry(1, rows_in=Count(0), sinks={"noop": 2}, stateful=True, late=1))

    assert capsys.readouterr().err.splitlines() == [
        "reading 500,000 records of orders in about 9 batches",
        "batch 0: 60,000 rows, 12 dead letters; 60,000 so far, 60 rows/s, 12 %",
        "batch 1: 60,000 rows; 120,000 so far, 75 rows/s, 24 %, about 63 min left",
        "reading 3 records of orders in about 1 batches, then new records until Ctrl-C",
        "batch 1: 0 rows, 1 late, 2 rows out; 0 so far, 0 rows/s",
    ]


def test_pipeline_reset_removes_progress_that_status_shows(tmp_path: Path) -> None:
    file = tmp_path / "sales.yaml"
    run("init", str(file))
    state, out = tmp_path / "state" / "sales", tmp_path / "out" / "sales"
    file.write_text(file.read_text().replace("localhost:9092", "127.0.0.1:1"))
    assert "has no checkpoint" in run("reset", str(file))

    LedgerStore(state / "ledger").write(Entry(0, rows_in=Count(7, 1), dead_letters=2))
    folder = claimed(file)
    (out / "country=FR").mkdir(parents=True)
    (out / "country=FR" / f"batch-0000000000-0000-{folder.owner.id}.parquet").touch()
    (out / "kept.txt").write_text("mine")

    assert "Add --yes" in run("reset", str(file), code=2)
    run("reset", str(file), "--outputs", "--yes")
    assert not state.exists()
    assert [p.name for p in out.iterdir()] == ["kept.txt"]


def claimed(file: Path) -> ParquetFolder:
    from kohort.spark.pipeline.parse import load_pipeline
    from kohort.spark.pipeline.pipeline_owner import claim_checkpoint
    from kohort.spark.pipeline.sinks.folder_claim import claim_sink

    pipeline = load_pipeline(file)
    claim_checkpoint(pipeline)
    return claim_sink(pipeline, pipeline.sinks[0])


def test_pipeline_reset_keeps_rows_of_other_pipelines_and_unknown_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    mine, other = tmp_path / "sales.yaml", tmp_path / "other.yaml"
    run("init", str(mine))
    other.write_text(mine.read_text().replace("name: sales", "name: other"))
    of_other = tmp_path / "out" / "sales" / f"batch-0000000000-0000-{claimed(other).owner.id}.parquet"
    unknown = tmp_path / "out" / "sales" / "batch-0000000000-0000.parquet"
    of_other.touch()
    unknown.touch()
    (tmp_path / "state" / "sales").mkdir()

    assert "removed the rows" not in run("reset", str(mine), "--outputs", "--yes")

    assert (of_other.exists(), unknown.exists()) == (True, True)


def test_pipeline_compact_merges_files_of_complete_micro_batches_without_spark(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "sales.yaml"
    run("init", str(file))
    out, commits = tmp_path / "out" / "sales", tmp_path / "state" / "sales" / "spark" / "commits"
    assert "has no checkpoint" in run("compact", str(file), code=1)
    id_ = claimed(file).owner.id
    assert "0 files merged into 0" in run("compact", str(file)), "nothing is known to be complete"
    for batch in range(4):
        pq.write_table(pa.table({"id": [batch]}), out / f"batch-{batch:010d}-0000-{id_}.parquet")
    commits.mkdir(parents=True)
    for name in ("0", "1", "2", ".2.crc"):
        (commits / name).touch()

    assert run("compact", str(file)) == "sink parquet: 3 files merged into 1\n"

    assert sorted(pq.read_table(out)["id"].to_pylist()) == [0, 1, 2, 3]
    assert len(list(out.glob("*.parquet"))) == 2
    assert "expected a size" in run("compact", str(file), "--size", "big", code=2)


def test_pipeline_run_reports_missing_spark_before_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sales.yaml"
    run("init", str(file))
    monkeypatch.setitem(sys.modules, "pyspark", None)

    output = run("test", str(file), code=1)

    assert "Spark needs the package pyspark: pip install 'kohort[spark]'" in output
    assert "starting Spark" not in output


def test_pipeline_counts_as_running_while_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kohort.spark.runtime import session as sessions

    outputs = []

    def start(*_: Any, **__: Any) -> None:
        outputs.append(run("status", str(file)))
        raise KohortError("stop the test before Spark starts")

    file = tmp_path / "orders.yaml"
    monkeypatch.setattr(sessions, "session", start)
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(["orders"])
        file.write_text(MEMBER.replace("127.0.0.1:1", broker.bootstrap))
        assert "stop the test before Spark starts" in run("run", str(file), code=1)

    assert f", process {os.getpid()} on " in outputs[0]
    assert "no micro-batch is complete yet" in outputs[0]


WINDOWS = """\
name: clicks
brokers: 127.0.0.1:1
source: {topics: [clicks], group: g}
decode: {format: json, schema: "at timestamp"}
steps:
  - window: {time: at, size: 1 minute, watermark: 1 minute, agg: {n: count(*)}}
sinks: [{noop: }]
"""


def test_pipeline_status_counts_output_rows_of_windows(tmp_path: Path) -> None:
    file = tmp_path / "clicks.yaml"
    file.write_text(WINDOWS)
    entry = Entry(0, rows_in=Count(500), sinks={"noop": 12}, stateful=True, late=3)
    LedgerStore(tmp_path / "state" / "clicks" / "ledger").write(entry)

    assert ": 500 rows, 0 dead letters, 3 late, 12 rows out\n" in run("status", str(file))


def test_pipeline_may_use_group_of_another_pipeline_after_reset_of_offsets(tmp_path: Path) -> None:
    from kohort.spark.pipeline.parse import load_pipeline
    from kohort.spark.pipeline.pipeline_owner import claim_checkpoint
    from kohort.spark.pipeline.sources import check_groups

    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(["clicks"])
        text = WINDOWS.replace("127.0.0.1:1", broker.bootstrap)
        mine, other = tmp_path / "clicks.yaml", tmp_path / "other.yaml"
        mine.write_text(text)
        other.write_text(text.replace("name: clicks", "name: other"))
        theirs = claim_checkpoint(load_pipeline(other))
        committed = OffsetAndMetadata(0, f"kohort-query:here:1:2:{theirs.text}")
        admin.alter_group_offsets("g", {TopicPartition("clicks", 0): committed})
        owner = claim_checkpoint(load_pipeline(mine))
        check_groups(load_pipeline(other), theirs)
        with pytest.raises(KohortError, match="kohort group reset-offsets g --to-current --execute"):
            check_groups(load_pipeline(mine), owner)

        command = ["group", "reset-offsets", "g", "--to-current", "--execute", "--bootstrap", broker.bootstrap]
        assert CliRunner().invoke(main, command).exit_code == 0

        check_groups(load_pipeline(mine), owner)


def test_pipeline_replay_skips_dead_letters_whose_value_was_omitted(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    with Broker() as broker:
        text = MEMBER.replace("127.0.0.1:1", broker.bootstrap).replace("group_mode: member", "start: earliest")
        file.write_text(f"{text}dlq: {{topic: dead}}\n")
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"orders": 1, "dead": 1})
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            about = [("kohort-error.topic", b"orders"), ("kohort-error.reason", b"not JSON")]
            producer.send("dead", None, b"k", headers=[*about, ("kohort-error.left-out", b"value (9 bytes)")])
            producer.send("dead", b"v", b"k", headers=about)

        assert run("replay", str(file)).startswith("1 not JSON\n")

        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            end = admin.list_offsets({TopicPartition("orders", 0): "latest"}).check()
    assert [found.offset for found in end.values()] == [1]


def test_pipeline_run_in_folder_of_another_pipeline_is_refused_before_spark_starts(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    mine, other = tmp_path / "sales.yaml", tmp_path / "other.yaml"
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(["orders"])
        run("init", str(mine))
        mine.write_text(mine.read_text().replace("localhost:9092", broker.bootstrap))
        other.write_text(mine.read_text().replace("name: sales", "name: other"))
        claimed(other)

        output = run("run", str(mine), code=1)

        assert "belongs to pipeline other" in output
        assert "not to pipeline sales" in output
        assert "starting Spark" not in output
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            assert [topic.name for topic in admin.list_topics() if not topic.name.startswith("__")] == ["orders"]
