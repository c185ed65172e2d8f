"""Incidents with each Python library: causes from the broker's journal and from ``kohort watch``."""

from __future__ import annotations

import pytest

from support.campaign.brokers import apache_broker, kohort_broker
from support.campaign.incidents import ALL_INCIDENTS, JOURNAL, run_incident, watching

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.campaign, pytest.mark.timeout(900)]


@pytest.mark.parametrize("incident", ALL_INCIDENTS, ids=lambda incident: incident.name.replace(" ", "-"))
def test_incident_has_no_wrong_cause_and_is_found_in_the_journal(incident, tmp_path):
    with kohort_broker() as broker, watching(broker.bootstrap, tmp_path / "watch.sqlite"):
        rows = run_incident(incident, broker, tmp_path / "watch.sqlite")

    assert [row for row in rows if row.verdict in ("wrong", "unsettled")] == []
    assert [row for row in rows if row.view == JOURNAL and row.verdict == "missed"] == []


@pytest.mark.kafka
@pytest.mark.parametrize("incident", ALL_INCIDENTS, ids=lambda incident: incident.name.replace(" ", "-"))
def test_incident_on_apache_kafka_has_no_wrong_cause(incident, tmp_path):
    with apache_broker() as broker, watching(broker.bootstrap, tmp_path / "watch.sqlite"):
        rows = run_incident(incident, broker, tmp_path / "watch.sqlite")

    assert [row for row in rows if row.verdict in ("wrong", "unsettled")] == []
