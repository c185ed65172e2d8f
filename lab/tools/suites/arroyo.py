"""arroyo's broker tests (its Kafka backend, on confluent-kafka), from its source distribution."""

from __future__ import annotations

import os
import subprocess
import sys

from results import Results, SuiteList, junit
from sources import WORK, sdist

from support.processes.served_broker import Served

SUITE_S = 1800
TEST_S = 180
ASSERTIONS = '''"""What the source distribution leaves out: a value before and after what happens in between."""

from contextlib import contextmanager


@contextmanager
def assert_changes(value, before, after):
    assert value() == before
    yield
    assert value() == after


def assert_does_not_change(value, same):
    return assert_changes(value, same, same)
'''
SETTINGS = {"num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}


def arroyo(suite_list: SuiteList) -> Results:
    """Return the results of the broker tests: those of its streams, with both group protocols."""
    folder = sdist("sentry-arroyo", suite_list.version)
    report = WORK / "arroyo.xml"
    (folder / "tests" / "assertions.py").write_text(ASSERTIONS)
    (folder / "pytest.ini").write_text("[pytest]\n")
    options = (word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}"))
    with Served(*options) as served:
        environment = {"DEFAULT_BROKERS": served.bootstrap, "PYTHONPATH": str(folder)}
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts="]
        subprocess.run(
            [*pytest, "tests/backends/test_kafka.py", "-k", "Streams",
             "--tb=short", f"--timeout={TEST_S}", f"--junitxml={report}"],
            cwd=folder, env={**os.environ, **environment}, timeout=SUITE_S, check=False, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return junit(report.read_text())
