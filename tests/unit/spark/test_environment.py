"""The surroundings of Spark's programs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from kohort.spark.runtime.environment import spark_environ, worker_python


def java_that(does: str, folder: Path) -> str:
    """A JAVA_HOME whose java knows its version, and else does this."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "21.0.1"\' >&2 && exit\n{does}\n')
    command.chmod(0o755)
    return str(folder)


def test_workers_on_this_machine_run_this_python_by_the_loopback_address(tmp_path: Path) -> None:
    home = java_that("true", tmp_path)

    given = spark_environ({"JAVA_HOME": home})

    assert (given["JAVA_HOME"], given["SPARK_LOCAL_IP"]) == (home, "127.0.0.1")
    assert (given["PYSPARK_PYTHON"], given["PYSPARK_DRIVER_PYTHON"]) == (worker_python(), sys.executable)


def test_what_is_chosen_already_is_heeded(tmp_path: Path) -> None:
    home = java_that("true", tmp_path)
    chosen = {"JAVA_HOME": home, "PYSPARK_PYTHON": "/opt/python", "SPARK_LOCAL_IP": "10.0.0.1"}

    assert chosen.items() <= spark_environ(chosen).items()
    assert "SPARK_LOCAL_IP" not in spark_environ({"JAVA_HOME": home}, local=False)
