"""First commands of the on-call guide, run on a group of Apache Kafka."""

from __future__ import annotations

import uuid

import pytest

from support.rebalanced_group import rebalanced_group

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.timeout(300)]


def test_the_commands_of_the_guide_tell_of_a_group_of_apache_kafka(apache):
    name = f"paged-{uuid.uuid4().hex[:8]}"
    with rebalanced_group(apache, name) as run:
        why = run(["group", "why", name, "--since", "1h"])
        members = run(["group", "describe", name, "--members", "--watch-for", "20s"])
        timeline = run(["group", "timeline", name, "--since", "1h"])
        what_if = run(["group", "what-if", name, "--rolling-restart", "--static"])

    assert "billing-2" in why
    assert "CAUSE     MEMBER_" in why or "CAUSE     MAX_POLL_EXCEEDED" in why, why
    assert "(confidence: proof)" not in why, "nothing is proof that was seen from outside"
    header, row = (line.split() for line in members.splitlines()[:2])
    assert (row[header.index("CLIENT-ID")], row[header.index("STATE")]) == ("billing-1", "ok")
    assert "billing-1" in timeline
    assert "moved 0/4" in what_if
