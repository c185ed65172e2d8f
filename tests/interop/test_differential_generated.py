"""Any sequence of group requests has the same answers from our broker as from Apache Kafka.

``KOHORT_EXAMPLES=2000`` plays that many; the sequences are the same in every run.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.differential.harness import compare
from support.differential.steps import SIGHTS, TOPIC, play_ours, play_theirs
from support.raw.broker_under_test import Crew

EXAMPLES = int(os.environ.get("KOHORT_EXAMPLES", "40"))
pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(60 * EXAMPLES)]
ACTS = ("join", "restart", "sync", "heartbeat", "leave", "commit")
steps = st.lists(
    st.tuples(st.sampled_from((*ACTS, *ACTS, *ACTS, *SIGHTS)), st.integers(0, 4), st.integers(0, 3)),
    min_size=8,
    max_size=40,
)


@pytest.fixture(scope="module")
def prepared(apache):
    """The address of an Apache Kafka that has the topic of all sequences."""
    crew = Crew(apache)
    if not crew._described(TOPIC).partitions:
        crew.wire.create(TOPIC, 2)
    crew.await_topic(TOPIC, 2)
    crew.close()
    return apache


@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), print_blob=True
)
@given(steps=steps)
def test_any_sequence_of_group_requests_has_the_same_answers(prepared, steps):
    crew = Crew(prepared)
    try:
        ours, schedule = play_ours(steps, crew.mark)
        differences = compare(ours, play_theirs(steps, schedule, crew))
    finally:
        crew.close()
    assert differences == [], "\n".join(map(str, differences))
