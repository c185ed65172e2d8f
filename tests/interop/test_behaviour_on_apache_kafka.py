"""The behaviour tests of the group protocol judge Apache Kafka too: what they demand is what it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests" / "behaviour").glob("test_kip_*.py")) + [
    ROOT / "tests" / "behaviour" / name for name in ("test_group_states.py", "test_groups_without_a_name.py")
]


def test_apache_kafka_behaves_as_the_behaviour_tests_say(apache):
    command = [sys.executable, "-m", "pytest", "-n0", "-x", "-p", "no:cacheprovider", f"--broker={apache}"]

    done = subprocess.run(
        [*command, *map(str, FILES)], cwd=ROOT, capture_output=True, text=True, timeout=850, check=False
    )

    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
