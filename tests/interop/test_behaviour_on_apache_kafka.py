"""The behaviour tests judge Apache Kafka too: it does what they ask of a broker, and kohort's clients get on with it.

Each list runs in a pytest of its own, pointed at the broker by ``--broker``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.campaign, pytest.mark.timeout(2400)]
ROOT = Path(__file__).parents[2]
BEHAVIOUR = ROOT / "tests" / "behaviour"
PROTOCOL = [
    *(path.name for path in sorted(BEHAVIOUR.glob("test_kip_*.py"))),
    "test_group_states.py",
    "test_empty_group_id.py",
]
"""Raw requests: what the broker must answer."""
CLIENTS = [
    "test_async_consumer.py",
    "test_async_consumer_group.py",
    "test_blocking_consumer.py",
    "test_consumer_group_handlers.py",
    "test_first_records.py",
    "test_handled_records.py",
    "test_custom_assignor.py",
    "test_invalid_arguments.py",
    "test_producers.py",
    "test_samples_of_groups.py",
    "test_upgrade_to_cooperative.py",
]
"""Tests of all client faces, which must pass with any broker."""


@pytest.mark.parametrize("files", [pytest.param(PROTOCOL, id="protocol"), pytest.param(CLIENTS, id="clients")])
def test_apache_kafka_passes_the_behaviour_tests(apache, files):
    command = [sys.executable, "-m", "pytest", "-n0", "-x", "-p", "no:cacheprovider", f"--broker={apache}"]

    done = subprocess.run(
        [*command, *(str(BEHAVIOUR / name) for name in files)],
        cwd=ROOT, capture_output=True, text=True, timeout=2300, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
