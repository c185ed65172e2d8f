"""``tools/kafka/run.py`` as a process: whenever it is ended, it leaves neither its JVM behind nor its folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.peers.apache_kafka import TOOL, kafka_tool
from support.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]
END_S = 60


@pytest.fixture
def by_hand(tmp_path):
    kafka_tool()
    with subprocess.Popen(
        [sys.executable, str(TOOL)], env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def java_in(folder):
    """The JVMs that work in the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text()
        except OSError:  # it has ended meanwhile
            continue
        if command.startswith("java\0") and str(folder) in command:
            found.append(process.name)
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("ready", [False, True], ids=["starting", "ready"])
def test_its_end_leaves_nothing_behind(by_hand, tmp_path, stop_signal, ready):
    if ready:
        assert "ready on 127.0.0.1:" in by_hand.stdout.readline()
    eventually(lambda: java_in(tmp_path) and any(log.stat().st_size for log in tmp_path.glob("*/kafka.log")))

    by_hand.send_signal(stop_signal)

    assert by_hand.wait(END_S) == 0
    assert java_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
