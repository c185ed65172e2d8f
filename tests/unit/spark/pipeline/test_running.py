"""Lock that prevents two runs of a pipeline at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kohort.errors import KohortError
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.pipeline.running.process import current_run, exclusive_run

ORDERS = """\
name: orders
source: {brokers: "localhost:9092", topics: [orders]}
sinks: [{noop: }]
"""


def test_error_of_a_second_pipeline_run_names_the_process_of_the_first_run(tmp_path: Path) -> None:
    pipeline = parse_pipeline(ORDERS, tmp_path / "orders.yaml", {})
    assert current_run(pipeline) is None

    with exclusive_run(pipeline):
        now = current_run(pipeline)
        assert now is not None
        assert now.pid == os.getpid()
        with pytest.raises(KohortError, match=rf"orders is already running: process {os.getpid()} on "):
            exclusive_run(pipeline).__enter__()
        assert current_run(pipeline) == now

    assert current_run(pipeline) is None
    with exclusive_run(pipeline):
        assert current_run(pipeline)


def test_killed_pipeline_run_is_not_reported_as_running(tmp_path: Path) -> None:
    pipeline = parse_pipeline(ORDERS, tmp_path / "orders.yaml", {})
    file = pipeline.file
    file.write_text(ORDERS)
    program = f"""
import os, pathlib, signal
from kohort.spark.pipeline.parse import load_pipeline
from kohort.spark.pipeline.running.process import exclusive_run
with exclusive_run(load_pipeline(pathlib.Path({str(file)!r}))):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], check=False)

    assert (pipeline.state / "running.json").exists()
    assert current_run(pipeline) is None
    with exclusive_run(pipeline):
        assert current_run(pipeline)
