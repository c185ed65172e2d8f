"""A broker is killed again and again and its files are torn: what its clients saw is right.

``lab/tools/crash/run.py`` kills; the checker shares no code with broker and clients.
"""

import pytest
from crash.run import options_of, play


@pytest.mark.timeout(1800)
@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize(
    "more", [["--tear"], ["--tear", "--compact"], ["--set", "log.flush.interval.messages=1"], ["--nodes", "3"]]
)
def test_what_clients_see_of_a_broker_that_is_killed_again_and_again(tmp_path, more):
    tally = play(options_of(["--rounds", "5", "--keep", str(tmp_path), *more]))

    assert tally.anomalies == {}
    assert tally.problems == []
    assert tally.rounds == 5
    assert tally.kills + tally.nodes_stopped >= tally.rounds, "each round kills the broker, or stops a node"
    assert tally.transactions > 0
