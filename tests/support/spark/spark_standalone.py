"""A standalone Spark cluster on this machine: a master and its workers as processes, on free ports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kohort.spark.runtime.environment import find_java
from support.processes.member_process import eventually
from support.processes.process_session import kill_family
from support.spark.quick_jvm import QUICK_JVM

STARTS_S = 300.0
LOOPBACK = "127.0.0.1"


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def spark_environ() -> dict[str, str]:
    return {
        **os.environ,
        **QUICK_JVM,
        "SPARK_HOME": str(spark_home()),
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[str]:
    """Yield the master's URL. Each worker has one core; logs and executor files are in ``folder``."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        master = folder / "master.log"
        where = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
        running.append(_start(master, "org.apache.spark.deploy.master.Master", *where))
        url = await_log(master, running[0], r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        logs = [folder / f"worker-{n}.log" for n in range(workers)]
        for n, log in enumerate(logs):
            room = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{n}")]
            running.append(_start(log, "org.apache.spark.deploy.worker.Worker", *where, *room, url))
        for log, process in zip(logs, running[1:], strict=True):
            await_log(log, process, r"(Successfully registered with master)")
        yield url
    finally:
        for process in reversed(running):
            kill_family(process)


def _start(log: Path, spark_class: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [str(spark_home() / "bin" / "spark-class"), spark_class, *arguments]
    with log.open("wb") as out:
        return subprocess.Popen(
            command,
            env=spark_environ() | {"SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_DIRS": str(log.parent / "local")},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def await_log(log: Path, process: subprocess.Popen[bytes], pattern: str) -> str:
    """Wait until the process logs a match of the pattern; return its first group."""

    def look() -> re.Match[str] | None:
        text = log.read_text(errors="replace")
        assert process.poll() is None, f"ended with {process.poll()}:\n{text[-4000:]}"
        return re.search(pattern, text)

    found: re.Match[str] = eventually(pattern, look, STARTS_S)
    return found[1]
