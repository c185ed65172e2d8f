from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kohort
from kohort.cli.main import main

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def broker() -> Iterator[kohort.Broker]:
    with kohort.Broker({"group.initial.rebalance.delay.ms": 0, "num.partitions": 3}) as broker:
        yield broker


@pytest.fixture
def run(broker: kohort.Broker) -> Run:
    """Function that runs a command against the broker: ``run("topics", "list")``. ``code``: expected exit code."""

    def call(*args: str, code: int = 0, stdin: str | bytes | None = None) -> Result:
        result = CliRunner(env={"KOHORT_BOOTSTRAP": broker.bootstrap}).invoke(main, list(args), input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return call


@pytest.fixture
def ask(run: Run) -> Callable[..., dict[str, Any]]:
    return lambda *args: json.loads(run(*args, "--output", "json").stdout)
