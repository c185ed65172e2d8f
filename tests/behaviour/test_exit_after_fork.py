from __future__ import annotations

import subprocess
import sys

import pytest

from kohort import Broker

PROGRAM = """
import os, sys
from kohort import Producer

producer = Producer(bootstrap_servers=sys.argv[1])
producer.send("t", b"v").result(20_000)
if {closed}:
    producer.close()
child = os.fork()
if child == 0:
    sys.exit(7)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
producer.close()
"""


@pytest.mark.parametrize("closed", [True, False])
def test_forked_child_exits_cleanly_after_a_name_lookup_in_the_parent(closed: bool):
    with Broker() as broker:
        ended = forked(broker.bootstrap.replace("127.0.0.1", "localhost"), closed=closed)

    assert (ended.stdout, ended.returncode) == ("7\n", 0), ended.stderr


def forked(address: str, *, closed: bool) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM.format(closed=closed), address],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
