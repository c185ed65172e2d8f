"""Run every benchmark in turn, and keep the outputs under bench/results.

    python bench/run.py [NAME ...]      bench_codec, bench_columns, ...; all of them by default

Ratios within one file are comparable; absolute figures of different or busy machines are not.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"
JSON_TO_FILE = {"bench_broker", "bench_codec"}


def run(name: str) -> bool:
    """Run one benchmark; return True if it succeeded."""
    target = RESULTS / f"{name}.json"
    command = [sys.executable, str(HERE / f"{name}.py"), "--json"]
    print(f"== {name}", flush=True)
    if name in JSON_TO_FILE:
        return subprocess.run([*command, str(target)], check=False).returncode == 0
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    target.write_text(done.stdout)
    return done.returncode == 0


def main() -> int:
    names = sys.argv[1:] or sorted(p.stem for p in HERE.glob("bench_*.py"))
    RESULTS.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    (RESULTS / "machine.json").write_text(json.dumps(machine) + "\n")
    failed = [name for name in names if not run(name)]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
