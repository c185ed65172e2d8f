from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

LAYOUT = Path(__file__).parent / "layout"


def test_javascript_unit_tests_of_layout_pass():
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: it runs the tests of the console's JavaScript modules")
    done = subprocess.run(
        [node, "--test", *map(str, sorted(LAYOUT.glob("*.test.mjs")))], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert "# pass 0" not in done.stdout
