"""Consumer groups whose coordinator assigns are served as Apache Kafka serves them: answers, descriptions, records.

Each script is a group made by chance from a seed, with members that behave ill as often as not; the scripts are the
same in every run, but for the ids that Kafka makes. ``KOHORT_SCRIPTS=1000`` plays that many.
"""

from __future__ import annotations

import os

import pytest

from support.differential.modern.both import assign_without_delay
from support.differential.modern.mixed import play_mixed
from support.differential.modern.script import play

SLICE = 30
SCRIPTS = int(os.environ.get("KOHORT_SCRIPTS", "200"))
pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def at_once(apache):
    """The address of an Apache Kafka that does not put off assignments."""
    assign_without_delay(apache, set_it=True)
    yield apache
    assign_without_delay(apache, set_it=False)


@pytest.mark.timeout(600)
def test_a_consumer_group_is_served_as_by_apache_kafka(at_once):
    for seed in range(SLICE):
        play(at_once, seed)


@pytest.mark.campaign
@pytest.mark.timeout(60 * SCRIPTS)
def test_many_consumer_groups_are_served_as_by_apache_kafka(at_once):
    for seed in range(SLICE, SLICE + SCRIPTS):
        play(at_once, seed)


@pytest.mark.timeout(600)
def test_a_group_of_both_protocols_is_served_as_by_apache_kafka(at_once):
    for seed in range(SLICE):
        play_mixed(at_once, seed)


@pytest.mark.campaign
@pytest.mark.timeout(60 * SCRIPTS)
def test_many_groups_of_both_protocols_are_served_as_by_apache_kafka(at_once):
    for seed in range(SLICE, SLICE + SCRIPTS):
        play_mixed(at_once, seed)
