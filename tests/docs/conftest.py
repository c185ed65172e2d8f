"""Wheel of this tree, built once by the tests that install it."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel() -> Path:
    """Build the wheel as a user does; other workers of the test run wait for the build."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "wheel.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "wheel"], cwd=ROOT, check=True, capture_output=True, timeout=300)
        return max((ROOT / "dist").glob("kohort-*.whl"), key=lambda path: path.stat().st_mtime)
