"""Any sequence of group requests has the same answers from our broker as from Apache Kafka."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.differential.harness import compare
from support.differential.steps import SIGHTS, TOPIC, run_on_ours, run_on_theirs
from support.raw.broker_under_test import BrokerUnderTest

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow]
ACTS = ("join", "restart", "sync", "heartbeat", "leave", "commit")
steps = st.lists(
    st.tuples(st.sampled_from((*ACTS, *ACTS, *ACTS, *SIGHTS)), st.integers(0, 4), st.integers(0, 3)),
    min_size=8,
    max_size=40,
)


@pytest.fixture(scope="module")
def prepared(apache):
    """Return the address of an Apache Kafka with the topic of all sequences."""
    broker = BrokerUnderTest(apache)
    if not broker._described(TOPIC).partitions:
        broker.wire.create(TOPIC, 2)
    broker.await_topic(TOPIC, 2)
    broker.close()
    return apache


@pytest.mark.timeout(2 * 3600)
@pytest.mark.parametrize("examples", [15, pytest.param(200, marks=pytest.mark.campaign)])
def test_any_sequence_of_group_requests_has_the_same_answers(prepared, examples):
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), print_blob=True)
    @given(steps=steps)
    def play(steps):
        broker = BrokerUnderTest(prepared)
        try:
            ours, schedule = run_on_ours(steps, broker.mark)
            differences = compare(ours, run_on_theirs(steps, schedule, broker))
        finally:
            broker.close()
        assert differences == [], "\n".join(map(str, differences))

    play()
