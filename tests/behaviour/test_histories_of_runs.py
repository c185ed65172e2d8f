"""Histories of producers and groups that are killed with their broker are consistent.

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
def test_histories_of_fifty_runs_are_consistent(tmp_path):
    runs(tmp_path, 50)


@pytest.mark.timeout(4 * 3600)
@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.kafka
def test_histories_of_twenty_runs_at_apache_kafka_are_consistent(tmp_path):
    runs(tmp_path, 20, "--apache")


@pytest.mark.slow
@pytest.mark.campaign
def test_state_of_the_cluster_is_recorded_when_clients_stall(tmp_path):
    tool = history_tool()

    with tool.OurBroker(tmp_path / "data") as broker:
        kept = tool.write_evidence(broker.bootstrap, tmp_path).read_text()

    assert "$ kohort transactions describe copy9\nkohort transactions: TRANSACTIONAL_ID_NOT_FOUND" in kept
    assert "$ kohort group why copiers\n" in kept
