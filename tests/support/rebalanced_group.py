"""A group of real consumers, on any broker, that rebalanced because a member exceeded its poll interval."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from click.testing import CliRunner

import kohort
from kohort.cli.main import main

POLLS = 2000


@contextmanager
def rebalanced_group(bootstrap: str, name: str = "orders") -> Iterator[Callable[[Sequence[str]], str]]:
    """Yield a function that runs a command on the broker and returns its output.

    Group and topic ``name``, four partitions: client ``billing-2`` joined ``billing-1``, then exceeded its poll
    interval. Sampling of 20 s takes 2 s.
    """

    def run(words: Sequence[str]) -> str:
        quicker = ["2s" if word == "20s" else word for word in words]
        done = CliRunner(env={**os.environ, "KOHORT_BOOTSTRAP": bootstrap}).invoke(main, quicker)
        assert done.exit_code == 0, done.output
        return done.stdout

    options = {
        "bootstrap_servers": bootstrap,
        "group_id": name,
        "group_protocol": "classic",
        "partition_assignment_strategy": "range",
        "heartbeat_interval_ms": 100,
    }
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({name: 4})
    with kohort.Consumer(client_id="billing-1", **options) as first:
        first.subscribe([name])
        with kohort.Consumer(client_id="billing-2", max_poll_interval_ms=1000, **options) as second:
            second.subscribe([name])
            _poll(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
            _poll(lambda: len(first.assignment()) == 4, first)
            yield run


def _poll(done: Callable[[], bool], *consumers: kohort.Consumer) -> None:
    for _ in range(POLLS):
        for consumer in consumers:
            consumer.poll(50)
        if done():
            return
    raise AssertionError([consumer.assignment() for consumer in consumers])
