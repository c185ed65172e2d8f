"""A Spark Connect server on this machine during a ``with`` block."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kohort.spark.runtime.environment import spark_environ, spark_home

SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
SAYS_ITS_PORT: Final = f"""\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.server.name = {SERVER}
logger.server.level = info
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
"""
_STARTED: Final = re.compile(r"Spark Connect server started at: \S*?:(\d+)\s")
_ENDS_S: Final = 30.0
_LOG_SHOWN: Final = 2000


@contextmanager
def connect_server(
    master: str, conf: Mapping[str, str], folder: Path, environ: Mapping[str, str], starts_within_s: float
) -> Iterator[str]:
    """Yield the URL of a server on 127.0.0.1 that ends with the block. Its log and warehouse are in ``folder``."""
    log = folder / "connect-server.log"
    process = _start(master, dict(conf), folder, log, environ)
    try:
        yield f"sc://127.0.0.1:{_port(process, log, time.monotonic() + starts_within_s)}"
    finally:
        _end(process)


def _start(
    master: str, conf: dict[str, str], folder: Path, log: Path, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    logging = folder / "connect-server.log4j2.properties"
    logging.write_text(SAYS_ITS_PORT)
    java_options = f"-Dlog4j2.configurationFile={logging} {conf.pop('spark.driver.extraJavaOptions', '')}".strip()
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": java_options,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        **conf,
    }
    command = [str(spark_home() / "bin" / "spark-submit"), "--class", SERVER, "--master", master]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    with log.open("wb") as out:
        return subprocess.Popen(
            [*command, "spark-internal"],
            cwd=folder,
            env={**environ, **spark_environ(environ), "SPARK_HOME": str(spark_home())},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # the client handles keyboard interrupts
        )


def _port(process: subprocess.Popen[bytes], log: Path, ends: float) -> int:
    while True:
        ended = process.poll() is not None
        text = log.read_text(errors="replace")
        found = _STARTED.search(text)
        if found:
            return int(found[1])
        if ended or time.monotonic() > ends:
            happened = f"ended with {process.returncode}" if ended else "did not start in time"
            raise AssertionError(f"the Spark Connect server {happened}: {text[-_LOG_SHOWN:].strip()}")
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ENDS_S)
    with suppress(ProcessLookupError):  # child processes: its launcher, workers
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
