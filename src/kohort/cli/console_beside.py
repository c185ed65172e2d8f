"""The console beside the broker of ``kohort serve``: a thread of its own, with clients of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from kohort.cli.cluster import SERVERS, ClusterAccess
from kohort.cli.console_options import LISTEN, ConsoleWanted, console_options, needs_console, served_as

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
