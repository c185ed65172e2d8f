"""Run a broker with all kinds of clients for long, and check for growth, stalls and anomalies.

    python lab/tools/soak/run.py --minutes 60          with Spark where pyspark is installed
    python lab/tools/soak/run.py --minutes 10 --no-spark
    python lab/tools/soak/run.py --judge FILE          the verdict of a run that was kept

A broker (kohort serve), plain, idempotent and transactional producers, ten groups of both protocols with changing
members, a Spark pipeline, compaction, retention, and a reader of /metrics. Memory, open files, threads, disk usage and
the delay of the broker's event loop are sampled every few seconds; at the end comes the verdict, and ``kohort
check-history`` checks the histories. Exit code 1: growth, a stall or an anomaly.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "lab" / "tools")]

from kohort_lab.history.checker import CheckedHistory  # noqa: E402 - after sys.path is set
from soak.crowd import Soak  # noqa: E402 - after sys.path is set
from soak.verdict import judge, table  # noqa: E402 - after sys.path is set

BUILD = ROOT / "build" / "soak"


def main(arguments: list[str] | None = None) -> int:
    """Run the selected soak; return the exit code."""
    options = options_of(sys.argv[1:] if arguments is None else arguments)
    if options.judge is not None:
        lines = judge([json.loads(line) for line in options.judge.read_text().splitlines()])
        print(table(lines))
        return 0 if all(line.is_flat for line in lines) else 1
    options.out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="soak-", dir=options.keep))
    samples = options.out / "samples.jsonl"
    soak = Soak(
        folder, samples, minutes=options.minutes, every_s=options.every, spark=options.spark, leak=options.plant_leak
    )
    began = time.monotonic()
    try:
        found = soak.run()
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    code = print_verdict(soak, found, samples, time.monotonic() - began)
    if options.keep is None and not found.counts:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"histories, logs and data are in {folder}")
    return code


def print_verdict(soak: Soak, found: CheckedHistory, samples: Path, took_s: float) -> int:
    """Print the verdict; return the exit code."""
    lines = judge(soak.samples)
    print(table(lines))
    for anomaly in found.anomalies:
        print(f"{anomaly.check}: {anomaly.sentence}")
        for proof in anomaly.evidence:
            print(f"    {proof.place}  {proof.line}")
    for stall in soak.stalls:
        print(f"STALLED {stall}")
    grows = [line.series for line in lines if not line.is_flat]
    wrong = ", ".join(f"{check} {count}" for check, count in found.counts.items()) or "nothing is wrong"
    print(
        f"\n{took_s / 60:.1f} minutes, {len(soak.samples)} samples in {samples}\n"
        f"{found.operations} operations of {found.clients} clients, {found.transactions} transactions: {wrong}\n"
        f"the broker's loop: {soak.late_share:.1%} of the looks were late by over 0.1 s; "
        f"clients that did nothing for over {soak.STALL_S:.0f} s: {len(soak.stalls)}\n"
        f"verdict: {'flat' if not grows else 'grows: ' + ', '.join(grows)}"
    )
    return 1 if grows or found.counts or soak.stalls else 0


def options_of(arguments: list[str]) -> argparse.Namespace:
    has_spark = all(importlib.util.find_spec(name) for name in ("pyspark", "pyarrow"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="duration in minutes [60]")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between samples [5]")
    parser.add_argument(
        "--spark",
        action=argparse.BooleanOptionalAction,
        default=has_spark,
        help="include a Spark pipeline [if pyspark is installed]",
    )
    parser.add_argument("--out", type=Path, default=BUILD, help="folder for the samples [build/soak]")
    parser.add_argument("--keep", type=Path, help="existing folder for histories, logs and data")
    parser.add_argument("--judge", type=Path, metavar="FILE", help="judge the samples of an earlier run")
    parser.add_argument(
        "--plant-leak", action="store_true", help="let a client leak memory and files, as a test of the verdict"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
