"""The ``/metrics`` page of a broker in this process: its event loop copies the state, other threads build the page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from typing import Final

from kohort.aio.serving.cluster_server import ClusterServer
from kohort.aio.serving.garbage import postpone_collection
from kohort.aio.serving.server import Server
from kohort.aio.system import wall_ms
from kohort.config.broker import BrokerConfig
from kohort.errors import KohortError
from kohort.metrics.exposition import Pauses, check_extra, render_page
from kohort.metrics.families import PageOptions, build_page, parse_metric_sets
from kohort.metrics.group_families import GroupViews
from kohort.metrics.local_brokers import BrokersSnapshot, LocalBrokers
from kohort.metrics.page import Page
from kohort.metrics.rebalance_counts import RebalanceCounts
from kohort.metrics.serving import Pages, parse_page_address, serving

SNAPSHOT_TIMEOUT_S: Final = 10.0
"""Timeout of one snapshot of the broker, in seconds. A busy event loop delays it: clients are served first."""
VIEWS_AT_ONCE: Final = 5


@contextmanager
def serve_broker_metrics(server: Server | ClusterServer, config: BrokerConfig, listen: str) -> Iterator[str]:
    """Serve a broker's metrics at ``listen`` (HOST:PORT) inside the ``with`` block; yield the URL.

    Call it on the broker's event loop. Raises ConfigError if the address is unusable, MissingExtra without
    prometheus-client.
    """
    address = parse_page_address(listen, "--metrics", allow_anyone=config.metrics_allow_anyone)
    check_extra()
    state, loop = LocalBrokers(server, wall_ms), asyncio.get_running_loop()
    options = PageOptions(
        sets=parse_metric_sets(",".join(config.metrics_compat), "kohort.metrics.compat"),
        most_partitions=config.metrics_max_partitions,
        most_series=config.metrics_max_series,
    )
    try:
        pages = Pages(BrokerPages(state, loop, options).make)
        with serving(pages, address, any_host=config.metrics_allow_anyone) as url:
            yield url
    finally:
        state.end()


class BrokerPages:
    """Metrics pages of a broker, built on other threads than the broker's event loop."""

    def __init__(self, state: LocalBrokers, loop: asyncio.AbstractEventLoop, options: PageOptions) -> None:
        self._state = state
        self._loop = loop
        self._options = options
        self._pauses = Pauses()
        self._counts = RebalanceCounts()
        self._views = GroupViews(self._counts.times)

    def make(self, form: str) -> tuple[bytes, str]:
        """Build a metrics page in the format ``form``. Raises KohortError if the broker does not respond in time."""
        with postpone_collection():
            page = self._page(self._snapshot())
            made = render_page(page, form, self._pauses)
            self._work_through(page.clear())
            return made

    def _snapshot(self) -> BrokersSnapshot:
        snapshot = asyncio.run_coroutine_threadsafe(self._state.snapshot(), self._loop)
        try:
            return snapshot.result(SNAPSHOT_TIMEOUT_S)
        except FutureTimeout:
            snapshot.cancel()
            raise KohortError(
                f"the broker was too busy to report its metrics within {SNAPSHOT_TIMEOUT_S:g} s"
            ) from None
        finally:
            self._counts.add(self._pauses.between(self._state.take_entries()))

    def _page(self, state: BrokersSnapshot) -> Page:
        self._work_through(self._counts.settle(state.cluster.at_ms))
        views = list(self._pauses.between(self._views.update(state.cluster.groups)))
        pieces = build_page(
            state.cluster,
            views,
            self._options,
            rebalances=self._counts,
            brokers=tuple(state.brokers),
            process=state.process,
        )
        for page in self._pauses.between(pieces):
            made = page
        while views:
            del views[-VIEWS_AT_ONCE:]
            self._pauses.pause()
        return made

    def _work_through(self, pieces: Iterable[object]) -> None:
        for _ in self._pauses.between(pieces):
            pass
