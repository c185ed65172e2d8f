"""``kohort pipeline run`` in its own session: driver, JVM and Python workers are stopped and killed together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kohort.spark.pipeline.ledger import Ledger, LedgerStore, total
from support.processes.member_process import eventually
from support.processes.process_session import ENDS_S, family, kill_family, signal_family

Row = dict[str, Any]


class PipelineProcess:
    """A run of ``file``; ``environ``: variables of the file. Output goes to ``log``."""

    def __init__(self, file: Path, environ: Mapping[str, str], *options: str, log: Path) -> None:
        self.log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kohort", "pipeline", "run", str(file), *options],
                env={**os.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def signal_all(self, number: signal.Signals) -> None:
        signal_family(self.process, number)

    def kill(self) -> None:
        """Kill all its processes (SIGKILL)."""
        kill_family(self.process)

    def kill_driver(self) -> None:
        """Kill the command's process alone (SIGKILL); the others notice and exit."""
        self.process.kill()
        self.process.wait(ENDS_S)
        eventually("Spark ends with its driver", lambda: not family(self.process), ENDS_S)

    def end(self) -> int:
        """Stop the command (SIGTERM) as a service manager does; return its exit code."""
        self.process.terminate()
        return self.process.wait(ENDS_S)

    @property
    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def check_runs(self) -> None:
        assert self.process.poll() is None, f"ended with {self.process.poll()}:\n{self.printed[-4000:]}"


def rows_of(folder: Path, columns: Sequence[str]) -> list[Row]:
    """Return the rows of a Parquet sink, without a micro-batch in replacement."""
    import pyarrow.parquet as pq

    found: list[Row] = []
    for path in sorted(folder.rglob("*.parquet")):
        try:
            found += pq.ParquetFile(path).read(list(columns)).to_pylist()
        except FileNotFoundError:
            continue
    return found


def ledger_of(state: Path) -> Ledger:
    """Return the sum of all completed micro-batches of a pipeline."""
    return total(LedgerStore(state / "ledger").entries())


def last_run(state: Path) -> dict[str, Any]:
    """Return the report of the last completed run."""
    report: dict[str, Any] = json.loads((state / "last-run.json").read_text())
    return report
