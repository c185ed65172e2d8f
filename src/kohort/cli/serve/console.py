"""``kohort console``: one page in a browser that shows groups live, and what happened to them."""

from __future__ import annotations

import logging
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kohort.cli.groups.journal import store_option
from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.terminal.options import with_options
from kohort.cli.terminal.output import output_of, print_result
from kohort.errors import AuthenticationFailed, ConfigError, KohortError
from kohort.results.console import ConsoleReady

if TYPE_CHECKING:
    from kohort.console.app import ConsoleOptions
    from kohort.console.live import LiveSettings
    from kohort.console.logins import LoggedIn, TryLogin
    from kohort.console.serving import ConsolePlace
    from kohort.console.sources import ConsoleSource

F = TypeVar("F", bound=Callable[..., Any])
LISTEN: Final = "127.0.0.1:9310"
MOST_PASSWORD: Final = 1_024
TRIED_MS: Final = 10_000
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class ConsoleWanted:
    """Options of a console."""

    allow_changes: bool = False
    allow_host: tuple[str, ...] = ()
    login: str | None = None
    password_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    pipelines: tuple[Path, ...] = ()


def console_options(command: F) -> F:
    """Give a command the options of a console, as the argument ``wanted``."""

    @wraps(command)
    def with_wanted(*args: Any, **given: Any) -> Any:
        wanted = ConsoleWanted(**{field.name: given.pop(field.name) for field in fields(ConsoleWanted)})
        return command(*args, wanted=wanted, **given)

    return with_options(
        click.option("--allow-changes", is_flag=True, help="Allow resets and removals."),
        click.option("--allow-host", metavar="NAME", multiple=True, help="Host name of the console."),
        click.option("--login", type=click.Choice(["cluster"]), help="Log in users of the cluster (SASL)."),
        click.option("--password-file", type=_FILE, help="File with the password of the console."),
        click.option("--tls-cert", type=_FILE, help="Certificate chain for TLS (PEM)."),
        click.option("--tls-key", type=_FILE, help="Private key of the certificate (PEM)."),
        click.option("--pipeline", "pipelines", type=_FILE, multiple=True, help="Pipeline file to show."),
    )(with_wanted)  # type: ignore[return-value]


def served_as(
    wanted: ConsoleWanted, listen: str, option: str, cluster: ClusterAccess | None
) -> tuple[ConsolePlace, ConsoleOptions]:
    """Return address and options of a console. Raises ConfigError, also for a public address without a login."""
    from kohort.aio.serving.listening import is_loopback
    from kohort.config.listeners import parse_listener
    from kohort.console.app import ConsoleOptions
    from kohort.console.guard import Hosts
    from kohort.console.serving import ConsolePlace
    from kohort.metrics.serving import host_of

    host, port = parse_listener(listen, option)
    if (wanted.tls_cert is None) != (wanted.tls_key is None):
        raise ConfigError("a certificate and its key go together: give both")
    login = _login_of(wanted, cluster)
    if login is None and not is_loopback(host):
        raise ConfigError(
            f"{option}={listen} may be reached from other computers, and nobody would have to log in: listen on "
            "127.0.0.1, or say who may come in with a password file, or as the cluster's users"
        )
    if not is_loopback(host) and wanted.tls_cert is None:
        click.echo("the console is served without TLS: whoever is on the way reads passwords", err=True)
    names = {"localhost"}
    for name in wanted.allow_host:
        known = host_of(name)
        if known is None:
            raise ConfigError(f"{name[:80]!r} is no name of a host")
        names.add(known)
    options = ConsoleOptions(
        allow_changes=wanted.allow_changes,
        hosts=Hosts(frozenset(names)),
        login=login,
        secure=wanted.tls_cert is not None,
        pipelines=wanted.pipelines,
    )
    return ConsolePlace(host, port, wanted.tls_cert, wanted.tls_key), options


def _login_of(wanted: ConsoleWanted, cluster: ClusterAccess | None) -> TryLogin | None:
    if wanted.login is not None and wanted.password_file is not None:
        raise ConfigError("a password file and the cluster's users: choose one")
    if wanted.password_file is not None:
        from kohort.console.logins import by_password

        return by_password(_password_in(wanted.password_file))
    if wanted.login is None:
        return None
    if cluster is None:
        raise ConfigError("a recording has no cluster whose users could log in: give a password file")
    return _by_cluster(cluster)


def _password_in(path: Path) -> str:
    """Return the first line of a file that only its owner may read. Raises ConfigError."""
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigError(f"{path} may be read by others: chmod 600 {path}")
    try:
        line = path.read_text(encoding="utf-8").split("\n", 1)[0].rstrip("\r")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8") from error
    if not line or len(line) > MOST_PASSWORD:
        raise ConfigError(f"{path}: the first line is to be a password of 1 to {MOST_PASSWORD} letters")
    return line


def _by_cluster(cluster: ClusterAccess) -> TryLogin:
    """Return a login that tries name and password at the cluster. Raises ConfigError."""
    from kohort.watch.opening import WatchClients

    with cluster.admin() as admin:
        by_sasl, mechanism = admin.config.security_protocol.startswith("SASL"), admin.config.sasl_mechanism
    if not by_sasl or not mechanism.startswith(("PLAIN", "SCRAM-")):
        # Any other would take no name and no password, and let everybody in as the console itself.
        raise ConfigError("the cluster's users log in with name and password: that takes SASL, by PLAIN or SCRAM")

    def tried(name: str, password: str) -> LoggedIn | None:
        from kohort.console.logins import LoggedIn

        if not name or not password:
            return None
        as_user = ClusterAccess(
            _without_login(cluster.said),
            {**_without_login(cluster.settings), "sasl.username": name, "sasl.password": password},
            cluster.where,
        )
        try:
            with as_user.admin() as admin:
                admin.describe_cluster(timeout_ms=TRIED_MS)
        except AuthenticationFailed:
            return None
        except ConfigError as error:
            raise KohortError(f"the login cannot be tried: {error}") from error
        return LoggedIn(name, WatchClients(as_user.admin, as_user.consumer))

    return tried


def _without_login(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if "jaas" not in name}


def needs_console() -> None:
    """Raise MissingExtra without the console's packages, ConfigError without its files."""
    from kohort.console.page import ConsolePage

    ConsolePage()
    import kohort.console.serving  # noqa: F401 - says what is missing


HELP = """Serve a page with live groups: lag, members, assignments over time, causes of rebalances, what-if.

It listens on 127.0.0.1 by default; another address needs a login. --allow-changes allows confirmed changes. The journal
is that of the cluster or of a watcher; without one the console watches itself (--no-watch: it does not).

--recording shows a watcher's file, or the output of `kohort group events --output ndjson`. --export writes one group as
an HTML file that needs no server. The guide: docs/guides/console.md

\b
Examples:
  kohort console --profile prod --listen 127.0.0.1:8080
  kohort console --recording incident.ndjson
  kohort console --export incident.html --group my-group
  kohort console --listen 0.0.0.0:9310 --password-file secret \\
      --tls-cert cert.pem --tls-key key.pem --allow-host kafka-console
"""


@click.command(help=HELP, short_help="Show groups live in a browser, and what happened.")
@click.option("--listen", metavar="HOST:PORT", default=LISTEN, show_default=True, help="Address; port 0 is any.")
@console_options
@click.option("--recording", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Recording to show.")
@click.option("--export", type=click.Path(dir_okay=False, path_type=Path), help="Write an HTML file instead.")
@click.option("--group", "group_id", metavar="GROUP", shell_complete=complete_groups, help="Group of --export.")
@click.option(
    "--interval", type=click.FloatRange(1, 3600), default=5.0, show_default=True, help="Seconds between samples."
)
@click.option("--watch/--no-watch", default=True, help="Watch the cluster if it has no journal.")
@click.option(
    "--max-groups", type=click.IntRange(1, 10_000), default=2_000, show_default=True, help="Most groups to show."
)
@click.option(
    "--journal-size", type=click.IntRange(1, 4_096), default=64, show_default=True, help="MiB of the journal in memory."
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


def live_source(cluster: ClusterAccess, settings: LiveSettings) -> ConsoleSource:
    from kohort.console.live import LiveSource
    from kohort.watch.opening import WatchClients

    clients = WatchClients(cluster.admin, cluster.consumer)
    with clients.admin() as admin:
        admin.describe_cluster()  # fails at once if no broker answers
    return LiveSource(clients, cluster.address, settings)


def serve_console(
    source: ConsoleSource,
    wanted: ConsoleWanted,
    listen: tuple[str, str],
    cluster: ClusterAccess | None,
    output: str = "table",
) -> None:
    """Serve until SIGTERM or Ctrl-C; ``listen``: address and its option."""
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
    from kohort.console.exporting import exported
    from kohort.console.page import ConsolePage

    page = ConsolePage()
    source.begin()
    try:
        path.write_text(page.alone(exported(source, group)), encoding="utf-8")
    finally:
        source.end()
