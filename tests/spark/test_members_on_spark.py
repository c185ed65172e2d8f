"""Two pipelines as members of one group, on a real Spark: one stands still and is fenced, then it is killed.

tests/behaviour/test_spark_members.py has more of what may befall a member, without Spark.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kohort import Broker
from kohort.cli.why import read_journal, why
from kohort.coordinator.journal import RequestFenced
from support.processes.two_pipelines import GROUP, run_two_pipelines

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.whole, pytest.mark.timeout(3000)]


def test_one_of_two_pipelines_stands_still_and_is_killed_and_no_row_is_lost(tmp_path: Path) -> None:
    with Broker() as broker:
        run_two_pipelines(tmp_path, broker.bootstrap, lambda: generation_of(broker.bootstrap))

        fenced = [e for e in read_journal(broker.bootstrap, GROUP) if isinstance(e, RequestFenced)]
        assert ("left", "UNKNOWN_MEMBER_ID") in {(e.who.client_id, e.error) for e in fenced}
        the_group_tells_why(broker.bootstrap)


def generation_of(bootstrap: str) -> int:
    return max(getattr(entry, "generation", 0) or 0 for entry in read_journal(bootstrap, GROUP))


def the_group_tells_why(bootstrap: str) -> None:
    def told(*options: str) -> str:
        command = [GROUP, "--last", "0", "--bootstrap", bootstrap, *options]
        return CliRunner().invoke(why, command, catch_exceptions=False).stdout

    causes = {rebalance["cause"] for rebalance in json.loads(told("--output", "json"))["rebalances"]}
    assert {"SESSION_TIMEOUT.frozen", "SESSION_TIMEOUT.process_died"} <= causes
    story = told()
    assert "left" in story
    assert "right" in story
