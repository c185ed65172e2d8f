"""Options of ``kohort serve`` for a console and a watcher beside its broker."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kohort.cli.groups.watch import line_about, settings_of
from kohort.cli.serve.console import LISTEN, ConsoleWanted, console_options, needs_console, served_as
from kohort.cli.terminal.cluster import SERVERS, ClusterAccess

if TYPE_CHECKING:
    from kohort.watch.background import BackgroundWatch

F = TypeVar("F", bound=Callable[..., Any])
INTERVAL_S: Final = 5.0
END_S: Final = 0.2
"""The broker's loop waits for it, and answers nobody meanwhile."""


class ConsoleBeside:
    """A console that is wanted beside a broker: where, and how."""

    def __init__(self, listen: str, wanted: ConsoleWanted, config: Path | None) -> None:
        self._listen, self._wanted, self._config = listen, wanted, config

    @contextmanager
    def begun(self, bootstrap: str) -> Iterator[str]:
        """Serve it while the block runs, for the broker at an address, and yield its own."""
        from kohort.config.client_files import read_client_file
        from kohort.console.app import ConsoleApp
        from kohort.console.live import LiveSettings, LiveSource
        from kohort.console.serving import console_served
        from kohort.watch.opening import WatchClients

        said = {} if self._config is None else dict(read_client_file(self._config, os.environ).options)
        cluster = ClusterAccess({**said, SERVERS: bootstrap}, where=str(self._config or ""))
        place, options = served_as(self._wanted, self._listen, "--console", cluster)
        settings = LiveSettings(interval_s=INTERVAL_S, watch=False, end_s=END_S)  # the broker keeps its journal itself
        source = LiveSource(WatchClients(cluster.admin, cluster.consumer), bootstrap, settings)
        with console_served(source, ConsoleApp(source, options), place) as url:
            yield url


def console_beside_options(command: F) -> F:
    """Give a command these options, and it the argument ``beside``: a console that has not begun, or None."""

    @wraps(command)
    def with_console(*args: Any, console: str | None, wanted: ConsoleWanted, **options: Any) -> Any:
        config: Path | None = options.pop("console_config")
        if console is None and (config is not None or wanted != ConsoleWanted()):
            raise click.UsageError("--console-... goes with --console")
        if console is not None:
            needs_console()
        return command(*args, beside=None if console is None else ConsoleBeside(console, wanted, config), **options)

    config_option = click.option(
        "--console-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Client options by which it reaches this broker, where that is secured.",
    )
    option = click.option(
        "--console", is_flag=False, flag_value=LISTEN, metavar="[HOST:PORT]", help="Show the groups in a browser there."
    )
    return option(config_option(console_options("console-")(with_console)))  # type: ignore[return-value]


_WATCH_OPTIONS = (
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
    for option in reversed(_WATCH_OPTIONS):
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
