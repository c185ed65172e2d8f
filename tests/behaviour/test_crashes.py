import pytest
from crash.run import options_of, play


@pytest.mark.timeout(1800)
@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize(
    "more", [["--tear"], ["--tear", "--compact"], ["--set", "log.flush.interval.messages=1"], ["--nodes", "3"]]
)
def test_histories_of_a_repeatedly_killed_broker_are_consistent(tmp_path, more):
    tally = play(options_of(["--rounds", "5", "--keep", str(tmp_path), *more]))

    assert tally.anomalies == {}
    assert tally.problems == []
    assert tally.rounds == 5
    assert tally.kills + tally.nodes_stopped >= tally.rounds, "each round kills the broker, or stops a node"
    assert tally.transactions > 0
