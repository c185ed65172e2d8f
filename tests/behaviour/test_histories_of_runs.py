"""Producers, groups of both protocols and a copying group, killed at random with their broker: what they saw is right.

``lab/tools/history/run.py`` makes the runs; the checker shares no code with broker and clients.
"""

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "lab" / "tools" / "history" / "run.py"


def history_tool():
    spec = importlib.util.spec_from_file_location("history_tool", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def runs(tmp_path, count, *more):
    tool = history_tool()
    options = tool.options_of(["--runs", str(count), "--seconds", "10", "--keep", str(tmp_path), *more])
    for number in range(count):
        found = tool.one_run(number, options)
        assert found.counts == {}
        assert found.transactions > 0


@pytest.mark.timeout(4 * 3600)
@pytest.mark.slow
@pytest.mark.campaign
def test_what_clients_see_in_fifty_runs(tmp_path):
    runs(tmp_path, 50)


@pytest.mark.timeout(4 * 3600)
@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.kafka
def test_what_clients_see_in_twenty_runs_of_apache_kafka(tmp_path):
    runs(tmp_path, 20, "--apache")


@pytest.mark.slow
@pytest.mark.campaign
def test_where_clients_stand_still_what_the_cluster_says_is_kept(tmp_path):
    tool = history_tool()

    with tool.OurBroker(tmp_path / "data") as broker:
        kept = tool.write_evidence(broker.bootstrap, tmp_path).read_text()

    assert "$ kohort transactions describe copy9\nkohort transactions: TRANSACTIONAL_ID_NOT_FOUND" in kept
    assert "$ kohort group why copiers\n" in kept
