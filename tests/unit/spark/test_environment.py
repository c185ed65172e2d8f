"""What Spark's programs are given around them, and a Connect server that does not start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.waiting import eventually

pytest.importorskip("pyspark")
pytest.importorskip("grpc")

from kohort.errors import KohortError
from kohort.spark.runtime.connect_server import connect_server
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


def test_a_connect_server_that_ends_says_why(tmp_path: Path) -> None:
    here = {"JAVA_HOME": java_that("echo no room >&2; exit 3", tmp_path / "java"), "PATH": "/usr/bin:/bin"}

    with pytest.raises(KohortError, match=r"server ended with \d+: no room"), connect_server(environ=here):
        raise AssertionError("there is no server")


@pytest.mark.heavy
def test_a_connect_server_that_never_starts_is_given_up_and_leaves_nothing_behind(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    here = {"JAVA_HOME": java_that(f"echo $$ > {said}; exec sleep 600", tmp_path / "java"), "PATH": "/usr/bin:/bin"}

    with (
        pytest.raises(KohortError, match="did not start in time"),
        connect_server(environ=here, starts_within_s=3),
    ):
        raise AssertionError("there is no server")

    left = Path(f"/proc/{said.read_text().strip()}/stat")
    eventually(lambda: not left.exists() or left.read_text().rpartition(")")[2].split()[0] == "Z", "it runs on")
