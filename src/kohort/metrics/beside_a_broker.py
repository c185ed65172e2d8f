"""The page of a broker of this process, served beside it: looked at on its loop, made and written on other threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as NoAnswer
from contextlib import contextmanager
from typing import Final

from kohort.aio.serving.cluster_server import ClusterServer
from kohort.aio.serving.server import Server
from kohort.aio.system import wall_ms
from kohort.config.broker import BrokerConfig
from kohort.errors import KohortError
from kohort.metrics.exposition import BREATH_S, check_extra, text_of
from kohort.metrics.families import PageOptions, made_page, sets_of
from kohort.metrics.group_views import GroupView, GroupViews
from kohort.metrics.own_state import Looked, OwnState
from kohort.metrics.page import Page
from kohort.metrics.rebalance_counts import RebalanceCounts
from kohort.metrics.serving import Pages, Render, checked_address, serving

LOOK_S: Final = 10.0
"""How long a look at the broker may take: on a loop that is busy, it gives way to everything else."""
PIECES_AT_ONCE: Final = 5


@contextmanager
def metrics_beside(server: Server | ClusterServer, config: BrokerConfig, listen: str) -> Iterator[str]:
    """Serve the page of a broker at ``listen`` (HOST:PORT) while the block runs, as its options say; yield the URL.

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
        with serving(Pages(_looker(state, loop, options)), address) as url:
            yield url
    finally:
        state.end()


def _looker(state: OwnState, loop: asyncio.AbstractEventLoop, options: PageOptions) -> Callable[[], Render]:
    """Return what looks at a broker from another thread, one at a time."""
    counts = RebalanceCounts()
    views = GroupViews(counts.times)

    def look() -> Render:
        asked = asyncio.run_coroutine_threadsafe(state.look(), loop)
        try:
            looked = asked.result(LOOK_S)
        except NoAnswer:
            asked.cancel()
            raise KohortError(f"the broker was too busy to be looked at within {LOOK_S:g} s") from None
        counts.add(looked.entries)
        for _ in counts.settle():
            time.sleep(BREATH_S)
        seen: list[GroupView] = []
        for view in views.look(looked.cluster.groups):
            seen.append(view)
            time.sleep(BREATH_S)
        return _render(_page(looked, seen, options, counts))

    return look


def _page(looked: Looked, views: list[GroupView], options: PageOptions, counts: RebalanceCounts) -> Page:
    pieces = made_page(
        looked.cluster, views, options, rebalances=counts, brokers=tuple(looked.brokers), process=looked.process
    )
    for number, page in enumerate(pieces):
        made = page
        if number % PIECES_AT_ONCE == 0:
            time.sleep(BREATH_S)
    return made


def _render(page: Page) -> Render:
    return lambda form: text_of(page, form, of_process=True)
