"""The page of a broker of this process, served beside it: looked at on its loop, made and written on other threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import TimeoutError as NoAnswer
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from kohort.aio.serving.cluster_server import ClusterServer
from kohort.aio.serving.garbage import put_off
from kohort.aio.serving.server import Server
from kohort.aio.system import wall_ms
from kohort.config.broker import BrokerConfig
from kohort.errors import KohortError
from kohort.metrics.broker_families import WatchedCluster
from kohort.metrics.exposition import Pauses, check_extra, text_of
from kohort.metrics.families import PageOptions, made_page, sets_of
from kohort.metrics.group_families import GroupViews
from kohort.metrics.own_state import Looked, OwnState
from kohort.metrics.page import Page
from kohort.metrics.rebalance_counts import RebalanceCounts
from kohort.metrics.serving import Pages, checked_address, serving

LOOK_S: Final = 10.0
"""How long a look at the broker may take: on a loop that is busy, it gives way to everything else."""
VIEWS_AT_ONCE: Final = 5
"""Groups that are freed between two pauses."""


@contextmanager
def metrics_beside(
    server: Server | ClusterServer,
    config: BrokerConfig,
    listen: str,
    watched: Callable[[], WatchedCluster] | None = None,
) -> Iterator[str]:
    """Serve the page of a broker at ``listen`` (HOST:PORT) while the block runs, as its options say; yield the URL.
    ``watched`` is what is known of another cluster, if one is watched.

    Called on the loop of the broker. Raises ConfigError for an address that cannot be listened on, MissingExtra without
    prometheus-client.
    """
    address = checked_address(listen, "--metrics", allow_anyone=config.metrics_allow_anyone)
    check_extra()
    state, loop = OwnState(server, wall_ms), asyncio.get_running_loop()
    options = PageOptions(
        sets=sets_of(",".join(config.metrics_compat), "kohort.metrics.compat"),
        most_partitions=config.metrics_max_partitions,
        most_series=config.metrics_max_series,
    )
    try:
        pages = Pages(BrokerLooks(state, loop, options, watched).make)
        with serving(pages, address, any_host=config.metrics_allow_anyone) as url:
            yield url
    finally:
        state.end()


class BrokerLooks:
    """The looks at a broker from another thread, one at a time."""

    def __init__(
        self,
        state: OwnState,
        loop: asyncio.AbstractEventLoop,
        options: PageOptions,
        watched: Callable[[], WatchedCluster] | None = None,
    ) -> None:
        self._watched = watched
        self._state = state
        self._loop = loop
        self._options = options
        self._pauses = Pauses()
        self._counts = RebalanceCounts()
        self._views = GroupViews(self._counts.times)

    def make(self, form: str) -> tuple[bytes, str]:
        """Look at everything, and return a page of it. Raises KohortError where the broker is too busy."""
        with put_off():
            page = self._page(self._looked())
            made = text_of(page, form, self._pauses)
            self._work_through(page.let_go())
            return made

    def _looked(self) -> Looked:
        asked = asyncio.run_coroutine_threadsafe(self._state.look(), self._loop)
        try:
            return asked.result(LOOK_S)
        except NoAnswer:
            asked.cancel()
            raise KohortError(f"the broker was too busy to be looked at within {LOOK_S:g} s") from None
        finally:
            self._counts.add(self._pauses.between(self._state.take_entries()))

    def _page(self, looked: Looked) -> Page:
        self._work_through(self._counts.settle(looked.cluster.at_ms))
        views = list(self._pauses.between(self._views.look(looked.cluster.groups)))
        pieces = made_page(
            looked.cluster,
            views,
            self._options,
            rebalances=self._counts,
            brokers=tuple(looked.brokers),
            process=replace(looked.process, watched=None if self._watched is None else self._watched()),
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
