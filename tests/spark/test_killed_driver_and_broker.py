"""Kills of Spark's driver and of the broker while many kinds of clients run. No record may be lost."""

import pytest
from crash.run import options_of, play

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign, pytest.mark.timeout(3600)]


def test_every_record_is_in_a_sink_or_dead_letter_after_driver_and_broker_are_killed(tmp_path):
    tally = play(options_of(["--rounds", "10", "--driver", "--seed", "1", "--keep", str(tmp_path)]))

    assert (tally.anomalies, tally.problems) == ({}, [])
    assert tally.drivers_killed > 0
