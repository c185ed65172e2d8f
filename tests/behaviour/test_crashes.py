"""A broker is killed again and again and its files are torn: what its clients saw is right.

``tools/crash/run.py`` kills; the checker shares no code with broker and clients.
"""

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "crash" / "run.py"


def crash_tool():
    spec = importlib.util.spec_from_file_location("crash_tool", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


@pytest.mark.timeout(1800)
@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("more", [["--tear"], ["--set", "log.flush.interval.messages=1"], ["--nodes", "3"]])
def test_what_clients_see_of_a_broker_that_is_killed_again_and_again(tmp_path, more):
    tool = crash_tool()

    tally = tool.play(tool.options_of(["--rounds", "5", "--keep", str(tmp_path), *more]))

    assert tally.anomalies == {}
    assert (tally.rounds, tally.kills >= 5, tally.transactions > 0) == (5, True, True)
