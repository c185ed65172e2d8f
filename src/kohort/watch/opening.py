"""Open and close a watcher together with its clients and its journal file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kohort.errors import ConfigError
from kohort.insight.observed.watching import MAX_COMMITS, MAX_GROUPS, WatchLimits
from kohort.watch.store import WatchStore, store_path
from kohort.watch.watcher import CONSUMER_OPTIONS, GroupWatcher, WatchOptions

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.aio.consuming.consumer import Consumer

MIB: Final = 1 << 20
DAY_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Settings of ``kohort watch``.

    ``interval_s`` is the number of seconds between polls of group states; 0 means no polls. ``store`` is the journal
    file, with entries of at most ``days`` days and ``max_size`` MiB. The watcher has at most ``max_groups`` groups and
    ``max_partitions`` partitions in memory.
    """

    interval_s: float = 2.0
    store: Path | None = None
    days: int = 7
    max_size: int = 1024
    max_groups: int = MAX_GROUPS
    max_partitions: int = MAX_COMMITS


@dataclass(frozen=True, slots=True)
class WatchClients:
    admin: Callable[[], Admin]
    consumer: Callable[[Mapping[str, Any]], Consumer]


class OpenWatcher(NamedTuple):
    watcher: GroupWatcher
    store: WatchStore
    cluster_id: str


@contextmanager
def open_watcher(
    clients: WatchClients, settings: WatchSettings, environ: Mapping[str, str], options: Mapping[str, Any] | None = None
) -> Iterator[OpenWatcher]:
    """Open a watcher with its clients and its journal file; save the watcher's state at exit.

    ``options`` override the options of the watcher's consumer. Raises ConfigError if the file belongs to another
    cluster, StorageError if the file is unusable, and the errors of the clients.
    """
    limits = WatchLimits(groups=settings.max_groups, commits=settings.max_partitions)
    with ExitStack() as stack:
        admin = stack.enter_context(clients.admin())
        cluster_id = admin.describe_cluster().cluster_id
        where = settings.store or store_path(cluster_id, environ)
        kept = WatchStore(where, retention_ms=settings.days * DAY_MS, max_bytes=settings.max_size * MIB)
        stack.callback(kept.close)
        if kept.info("cluster") not in (None, cluster_id):
            raise ConfigError(
                f"{where} is the journal of cluster {kept.info('cluster')}, not of {cluster_id}: give another --store"
            )
        kept.set_info("cluster", cluster_id)
        consumer = stack.enter_context(clients.consumer({**CONSUMER_OPTIONS, **(options or {})}))
        how = WatchOptions(poll_ms=int(settings.interval_s * 1000), limits=limits)
        watcher = GroupWatcher(consumer, admin, kept, how)
        stack.callback(watcher.finish)
        yield OpenWatcher(watcher, kept, cluster_id)
