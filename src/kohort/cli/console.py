"""``kohort console``: one page in a browser that shows groups live, and what happened to them."""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kohort.cli.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.console_options import LISTEN, ConsoleWanted, console_options, needs_console, served_as
from kohort.cli.journal import store_option
from kohort.cli.output import output_of, print_result
from kohort.results.console import ConsoleReady

if TYPE_CHECKING:
    from kohort.console.sources import ConsoleSource

HELP = """Serve a page that shows groups live: lag, members, who had what when, why they rebalanced, what a change does.

It shows what the commands find, as the same JSON. It listens on 127.0.0.1 unless told otherwise; elsewhere one has to
log in. It changes nothing without --allow-changes, and then only what was confirmed. The journal is that of the
cluster, or a watcher's; where nobody keeps one, the console watches itself (--no-watch: it does not).

--recording shows the past instead: a watcher's file, or what `kohort group events --output ndjson` has written.
--export writes one group as an HTML file that needs no server. The guide: docs/guides/console.md

\b
Examples:
  kohort console
  kohort console --profile prod --listen 127.0.0.1:8080
  kohort console --recording incident.ndjson
  kohort console --export incident.html --group my-group
  kohort console --listen 0.0.0.0:9310 --password-file secret \\
      --tls-cert cert.pem --tls-key key.pem --allow-host kafka-console
"""


@click.command(help=HELP, short_help="Show groups live in a browser, and what happened.")
@click.option("--listen", metavar="HOST:PORT", default=LISTEN, show_default=True, help="Where to serve; port 0 is any.")
@console_options()
@click.option(
    "--recording", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Show this recording, no cluster."
)
@click.option("--export", type=click.Path(dir_okay=False, path_type=Path), help="Write an HTML file instead.")
@click.option("--group", "group_id", metavar="GROUP", shell_complete=complete_groups, help="Whose, for --export.")
@click.option(
    "--interval", type=click.FloatRange(1, 3600), default=5.0, show_default=True, help="Seconds between looks."
)
@click.option("--watch/--no-watch", default=True, help="Watch where nobody keeps a journal.")
@click.option("--max-groups", type=click.IntRange(1, 10_000), default=2_000, show_default=True, help="Shown at most.")
@click.option(
    "--journal-size", type=click.IntRange(1, 4_096), default=64, show_default=True, help="Kept in memory, MiB."
)
@store_option
@cluster_options
@output_of(ConsoleReady)
def console(
    listen: str,
    wanted: ConsoleWanted,
    recording: Path | None,
    export: Path | None,
    group_id: str | None,
    interval: float,
    watch: bool,
    max_groups: int,
    journal_size: int,
    store: Path | None,
    cluster: ClusterAccess,
    output: str,
) -> None:
    if (export is None) != (group_id is None):
        raise click.UsageError("--export and --group go together")
    needs_console()
    if recording is not None:
        from kohort.console.recorded import read_recording

        source: ConsoleSource = read_recording(recording)
    else:
        from kohort.console.live import LiveSettings

        source = live_source(cluster, LiveSettings(interval, max_groups, journal_size, store, watch))
    if export is not None:
        write_export(source, group_id or "", export)
        click.echo(f"wrote {export}", err=True)
        return
    serve_console(source, wanted, (listen, "--listen"), None if recording is not None else cluster, output)


def live_source(cluster: ClusterAccess, settings: object = None) -> ConsoleSource:
    """Return a cluster as a source. Raises what a client raises where nobody answers."""
    from kohort.console.live import LiveSettings, LiveSource
    from kohort.watch.opening import WatchClients

    clients = WatchClients(cluster.admin, cluster.consumer)
    with clients.admin() as admin:
        admin.describe_cluster()  # whether anybody is there is said at once
    return LiveSource(clients, cluster.address, settings if isinstance(settings, LiveSettings) else None)


def serve_console(
    source: ConsoleSource,
    wanted: ConsoleWanted,
    listen: tuple[str, str],
    cluster: ClusterAccess | None,
    output: str = "table",
) -> None:
    """Serve until SIGTERM or Ctrl-C; ``listen`` is an address and the option that gave it."""
    from kohort.console.app import ConsoleApp
    from kohort.console.serving import console_served

    place, options = served_as(wanted, *listen, cluster)
    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(message)s", stream=sys.stderr)
    logging.getLogger("kohort.console").setLevel(logging.INFO)  # logins
    with console_served(source, ConsoleApp(source, options), place) as url:
        kind = source.about().kind
        if output == "table":
            click.echo(f"console of {source.about().title.removeprefix('groups of ')} on {url}")
        else:
            print_result(ConsoleReady(url=url, kind=kind), "ndjson")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


def write_export(source: ConsoleSource, group: str, path: Path) -> None:
    """Write one group as an HTML file. Raises NothingThere for a group that is not there."""
    from kohort.console.exporting import exported
    from kohort.console.page import ConsolePage

    page = ConsolePage()
    source.begin()
    try:
        path.write_text(page.alone(exported(source, group)), encoding="utf-8")
    finally:
        source.end()
