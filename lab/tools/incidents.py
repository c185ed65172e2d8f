"""Run the incidents of the console guide on an embedded broker, and write its journal as a recording.

    python lab/tools/incidents.py

The guide's pictures use the recording docs/console/incidents.ndjson (`make screenshots`). Run this after a change of an
incident or of the journal's format; times and names change with each run.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kohort import Broker

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "examples" / "console_incidents.py"
RECORDING = ROOT / "docs" / "console" / "incidents.ndjson"
INCIDENTS = ("slow-handler", "killed", "not-revoked")
GROUPS = ("slow-handler", "killed-dynamic", "killed-static", "not-revoked")


def main() -> int:
    with Broker(group_initial_rebalance_delay_ms=3000) as broker:
        for name in INCIDENTS:
            subprocess.run([sys.executable, PROGRAM, name, broker.bootstrap], check=True)
        lines = []
        for group in GROUPS:
            command = ["group", "events", group, "--bootstrap", broker.bootstrap, "--output", "ndjson"]
            process = subprocess.run(
                [sys.executable, "-m", "kohort", *command], check=True, capture_output=True, text=True
            )
            lines += process.stdout.splitlines(keepends=True)
    RECORDING.write_text("".join(lines))
    print(f"{RECORDING.relative_to(ROOT)}: {len(lines)} entries, {RECORDING.stat().st_size >> 10} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
