"""Two pipelines as members of one group, on a real Spark. One of them stalls, is fenced, and is then killed.

tests/behaviour/test_spark_members.py tests more cases, without Spark.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner

from kohort import Broker
from kohort.cli.group.events import why
from kohort.cli.groups.journal import read_journal
from kohort.cli.terminal.cluster import ClusterAccess
from kohort.coordinator.journal import JournalEntry, RequestFenced
from support.processes.two_pipelines import GROUP, run_two_pipelines

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign, pytest.mark.timeout(3000)]


SESSIONS = {
    "group.consumer.session.timeout.ms": 20_000,
    "group.consumer.min.session.timeout.ms": 20_000,
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 1_000,
}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_no_row_is_lost_if_one_of_two_member_pipelines_stalls_and_is_killed(
    tmp_path: Path, protocol: Literal["classic", "consumer"]
) -> None:
    with Broker(SESSIONS) as broker:
        run_two_pipelines(tmp_path, broker.bootstrap, lambda: generation_of(broker.bootstrap), protocol=protocol)

        fenced = [e for e in journal_of(broker.bootstrap) if isinstance(e, RequestFenced)]
        assert ("left", "UNKNOWN_MEMBER_ID") in {(e.member.client_id, e.error) for e in fenced}
        the_group_tells_why(broker.bootstrap)


def journal_of(bootstrap: str) -> list[JournalEntry]:
    return read_journal(ClusterAccess({"bootstrap.servers": bootstrap}), GROUP)


def generation_of(bootstrap: str) -> int:
    return max(getattr(entry, "generation", 0) or 0 for entry in journal_of(bootstrap))


def the_group_tells_why(bootstrap: str) -> None:
    def why_output(*options: str) -> str:
        command = [GROUP, "--last", "0", "--bootstrap", bootstrap, *options]
        return CliRunner().invoke(why, command, catch_exceptions=False).stdout

    causes = {rebalance["cause"] for rebalance in json.loads(why_output("--output", "json"))["rebalances"]}
    assert {"SESSION_TIMEOUT.frozen", "SESSION_TIMEOUT.process_died"} <= causes
    story = why_output()
    assert "left" in story
    assert "right" in story
