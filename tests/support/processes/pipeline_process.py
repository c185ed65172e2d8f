"""``kohort pipeline run`` in a session of its own, so that the driver, its JVM and its Python workers can be stopped
and killed together, as a machine that dies would; and what it has left on the disk."""

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
    """A run of ``file``; ``environ``: what the file names. What it prints goes to ``log``."""

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
        """SIGKILL to all of them."""
        kill_family(self.process)

    def kill_driver(self) -> None:
        """SIGKILL to the process of the command alone; the others are to see it and end."""
        self.process.kill()
        self.process.wait(ENDS_S)
        eventually("Spark ends with its driver", lambda: not family(self.process), ENDS_S)

    def end(self) -> int:
        """SIGTERM, as a service manager sends it to the command; the exit code."""
        self.process.terminate()
        return self.process.wait(ENDS_S)

    @property
    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def check_runs(self) -> None:
        assert self.process.poll() is None, f"ended with {self.process.poll()}:\n{self.printed[-4000:]}"


def rows_of(folder: Path, columns: Sequence[str]) -> list[Row]:
    """What a Parquet sink holds; a micro-batch that is being replaced counts as not there."""
    import pyarrow.parquet as pq

    found: list[Row] = []
    for path in sorted(folder.rglob("*.parquet")):
        try:
            found += pq.ParquetFile(path).read(list(columns)).to_pylist()
        except FileNotFoundError:
            continue
    return found


def ledger_of(state: Path) -> Ledger:
    """The sum of all micro-batches that a pipeline has completed, over all its runs."""
    return total(LedgerStore(state / "ledger").entries())


def last_run(state: Path) -> dict[str, Any]:
    """The report of the last run that came to its end."""
    report: dict[str, Any] = json.loads((state / "last-run.json").read_text())
    return report
