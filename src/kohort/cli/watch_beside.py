"""Options of ``kohort serve`` by which it watches another cluster beside its broker."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kohort.cli.cluster import SERVERS, ClusterAccess
from kohort.cli.watch import line_about, settings_of

if TYPE_CHECKING:
    from kohort.watch.background import BackgroundWatch

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--watch", metavar="HOST:PORT", help="Watch the groups of another cluster, as kohort watch does."),
    click.option(
        "--watch-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Client options for it, from a client.properties.",
    ),
    click.option("--watch-interval", type=click.FloatRange(0, 3600), default=2.0, help="Seconds between looks at it."),
    click.option(
        "--watch-store", type=click.Path(path_type=Path, dir_okay=False), help="Keep its journal in this file."
    ),
    click.option("--watch-days", type=click.IntRange(1, 3650), default=7, help="How long its entries are kept."),
    click.option("--watch-max-size", type=click.IntRange(1), default=1024, help="Of all its entries, in MiB."),
    click.option("--watch-max-groups", type=click.IntRange(1), default=20_000, help="Remembered at a time."),
    click.option(
        "--watch-max-partitions", type=click.IntRange(1), default=500_000, help="Whose commits are remembered."
    ),
)


def watch_options(command: F) -> F:
    """Give a command these options, and it the argument ``watching``: a watch that has not begun, or None."""

    @wraps(command)
    def with_watching(*args: Any, **options: Any) -> Any:
        said = {name: options.pop(name) for name in list(options) if name == "watch" or name.startswith("watch_")}
        return command(*args, watching=_watch_of(said), **options)

    decorated: Any = with_watching
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def _watch_of(said: Mapping[str, Any]) -> BackgroundWatch | None:
    """Return the watch that is wanted. Raises UsageError for a file without an address, ConfigError for options that no
    client takes."""
    if said["watch"] is None and said["watch_config"] is None:
        return None
    from kohort.config.client_files import read_client_file
    from kohort.watch.background import BackgroundWatch
    from kohort.watch.opening import WatchClients

    options: dict[str, Any] = {}
    if said["watch_config"] is not None:
        options |= read_client_file(said["watch_config"], os.environ).options
    if said["watch"] is not None:
        options[SERVERS] = said["watch"]
    if SERVERS not in options:
        raise click.UsageError("--watch-config names no bootstrap.servers: add --watch HOST:PORT")
    cluster = ClusterAccess(options, where=str(said["watch_config"] or ""))
    cluster.admin().close()  # what is wrong with the options is said at once
    names = ("store", "interval", "days", "max_size", "max_groups", "max_partitions")
    settings = settings_of(**{name: said[f"watch_{name}"] for name in names})
    logger = logging.getLogger("kohort.watch")
    return BackgroundWatch(
        WatchClients(cluster.admin, cluster.consumer),
        cluster.address,
        settings,
        tell=lambda text: logger.warning("%s", text),
        told=lambda this: logger.info("%s", line_about(this)),
    )
