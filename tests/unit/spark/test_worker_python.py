"""The Python of Spark's workers: the installed packages, not Spark's zip of their sources."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kohort.spark.runtime.environment import make_launcher


def test_the_zipped_sources_are_left_out_and_the_rest_of_the_path_stays_in_order(tmp_path: Path) -> None:
    told = tmp_path / "a python"
    told.write_text('#!/bin/sh\necho "$PYTHONPATH"; for a in "$@"; do echo "<$a>"; done\n')
    told.chmod(0o755)
    path = "/first dir:/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10.9.9-src.zip:/jobs/pyspark.zip:/last"

    launcher = make_launcher(told, tmp_path / "launcher")
    said = subprocess.run(
        [launcher, "-m", "pyspark.daemon x"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert said.splitlines() == ["/first dir:/jobs/pyspark.zip:/last", "<-m>", "<pyspark.daemon x>"]


def test_without_a_path_there_is_nothing_to_leave_out(tmp_path: Path) -> None:
    launcher = make_launcher(Path("/bin/echo"), tmp_path / "launcher")
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    said = subprocess.run([launcher, "ok"], env=without, capture_output=True, text=True, check=True).stdout

    assert said == "ok\n"
