"""faust's broker tests (faust-streaming), from its source distribution: round trips by its two client libraries."""

from __future__ import annotations

import os
import subprocess

from results import Results, SuiteList, junit
from sources import WORK, sdist

from support.peers.client_programs import uv
from support.processes.served_broker import Served

SUITE_S = 600
TOOLS = ("pytest", "pytest-asyncio", "pytest-timeout", "aiokafka", "confluent-kafka")
TESTS = "tests/integration/broker"


def faust(suite_list: SuiteList) -> Results:
    """Return the results. The tests import nothing of faust, so neither faust nor its fixtures are built."""
    folder = sdist("faust-streaming", suite_list.version)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    report = WORK / "faust.xml"
    tools = (word for tool in TOOLS[1:] for word in ("--with", tool))
    pytest = [uv(), "tool", "run", *tools, TOOLS[0], "-q", "-p", "no:cacheprovider", f"--confcutdir={TESTS}"]
    with Served() as served:
        subprocess.run(
            [*pytest, TESTS, "--import-mode=importlib", "--tb=short", f"--junitxml={report}"],
            cwd=folder, env={**os.environ, "FAUST_TEST_BROKER": f"kafka://{served.bootstrap}"},
            timeout=SUITE_S, check=False, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return junit(report.read_text())
