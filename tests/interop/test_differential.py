"""Scripts of raw requests, at every version, played to our broker and to Apache Kafka: no answer differs unlisted.

Permitted differences are in tests/support/differential/differences.py.
"""

from __future__ import annotations

import pytest

import kohort
from support.differential import groups as differential_groups
from support.differential import log as differential_log
from support.differential import transactions as differential_transactions
from support.differential.harness import LEVELS, compare, run_script

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]
SCRIPTS = {
    script.__name__: script
    for module in (differential_groups, differential_log, differential_transactions)
    for script in module.SCRIPTS
}
SLICE = (0, 2, 5, 14)
"""The lowest version of each API, the highest, and two between."""


@pytest.fixture(scope="module")
def ours_alike():
    """Our broker, set up as the Apache Kafka of the tests is."""
    options = {"group.min.session.timeout.ms": 500, "group.max.size": 5, "offsets.topic.num.partitions": 5}
    with kohort.Broker(options) as broker:
        yield broker.bootstrap


@pytest.mark.parametrize(
    "levels", [pytest.param(SLICE, id="slice"), pytest.param(LEVELS, id="all", marks=pytest.mark.campaign)]
)
@pytest.mark.parametrize("script", SCRIPTS)
def test_kohort_answers_as_apache_kafka_does(script, levels, ours_alike, apache):
    played: list[int] = []
    for level in levels:
        ours = run_script(SCRIPTS[script], ours_alike, level)
        versions = [entry.version for entry in ours]
        if versions and versions == played:
            break  # all APIs have reached their highest version
        played = versions
        differences = compare(ours, run_script(SCRIPTS[script], apache, level))
        assert differences == [], f"level {level}:\n" + "\n".join(map(str, differences))
