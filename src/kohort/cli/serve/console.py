"""``kohort console``: serve a web page with live groups and the history of their rebalances."""

from __future__ import annotations

import logging
import stat
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kohort.cli.groups.journal import store_option
from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.terminal.options import FILE, NEW_FILE
from kohort.cli.terminal.output import output_of, print_result
from kohort.errors import AuthenticationFailed, ConfigError, KohortError
from kohort.results.console import ConsoleReady

if TYPE_CHECKING:
    from kohort.console.app import ConsoleOptions
    from kohort.console.logins import LoggedIn, TryLogin
    from kohort.console.serving import ConsolePlace
    from kohort.console.sources import ConsoleSource

LISTEN: Final = "127.0.0.1:9310"
MOST_PASSWORD: Final = 1_024
LOGIN_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ConsoleFlags:
    allow_changes: bool = False
    allow_host: tuple[str, ...] = ()
    login: str | None = None
    password_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    pipelines: tuple[Path, ...] = ()


def console_settings(
    flags: ConsoleFlags, listen: str, option: str, cluster: ClusterAccess | None
) -> tuple[ConsolePlace, ConsoleOptions]:
    """Return listen address and options of a console.

    Raises ConfigError if other computers could open the console without a login.
    """
    from kohort.aio.serving.listening import is_loopback
    from kohort.config.listeners import parse_listener
    from kohort.console.app import ConsoleOptions
    from kohort.console.serving import ConsolePlace
    from kohort.metrics.serving import host_of

    host, port = parse_listener(listen, option)
    if (flags.tls_cert is None) != (flags.tls_key is None):
        raise ConfigError("--tls-cert and --tls-key must be given together")
    login = _login_of(flags, cluster)
    if login is None and not is_loopback(host):
        raise ConfigError(
            f"{option}={listen} is open to other computers without a login: listen on 127.0.0.1, or add "
            "--password-file or --login cluster"
        )
    if not is_loopback(host) and flags.tls_cert is None:
        click.echo("warning: the console has no TLS, so the network can read passwords", err=True)
    names = {"localhost"}
    for name in flags.allow_host:
        known = host_of(name)
        if known is None:
            raise ConfigError(f"--allow-host {name[:80]!r} is not a host name")
        names.add(known)
    options = ConsoleOptions(
        allow_changes=flags.allow_changes,
        hosts=frozenset(names),
        login=login,
        secure=flags.tls_cert is not None,
        pipelines=flags.pipelines,
    )
    return ConsolePlace(host, port, flags.tls_cert, flags.tls_key), options


def _login_of(flags: ConsoleFlags, cluster: ClusterAccess | None) -> TryLogin | None:
    if flags.login is not None and flags.password_file is not None:
        raise ConfigError("--password-file and --login cluster exclude each other")
    if flags.password_file is not None:
        from kohort.console.logins import by_password

        return by_password(_password_in(flags.password_file))
    if flags.login is None:
        return None
    if cluster is None:
        raise ConfigError("--login cluster needs a cluster, not a recording: use --password-file")
    return _by_cluster(cluster)


def _password_in(path: Path) -> str:
    """Return the password in the first line of a file. Raises ConfigError if users other than the owner may read it."""
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ConfigError(f"other users can read {path}: chmod 600 {path}")
    try:
        line = path.read_text(encoding="utf-8").split("\n", 1)[0].rstrip("\r")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8") from error
    if not line or len(line) > MOST_PASSWORD:
        raise ConfigError(f"{path}: expected a password of 1 to {MOST_PASSWORD} characters in the first line")
    return line


def _by_cluster(cluster: ClusterAccess) -> TryLogin:
    """Return a function that checks name and password by a SASL login to the cluster. Raises ConfigError."""
    from kohort.watch.opening import WatchClients

    with cluster.admin() as admin:
        by_sasl, mechanism = admin.config.security_protocol.startswith("SASL"), admin.config.sasl_mechanism
    if not by_sasl or not mechanism.startswith(("PLAIN", "SCRAM-")):
        # other SASL mechanisms do not use the password: every login would succeed with the console's own credentials
        raise ConfigError("--login cluster needs a cluster with SASL PLAIN or SCRAM")

    def check(name: str, password: str) -> LoggedIn | None:
        from kohort.console.logins import LoggedIn

        if not name or not password:
            return None
        as_user = ClusterAccess(
            _without_login(cluster.file_options),
            {**_without_login(cluster.settings), "sasl.username": name, "sasl.password": password},
            cluster.file_name,
        )
        try:
            with as_user.admin() as admin:
                admin.describe_cluster(timeout_ms=LOGIN_MS)
        except AuthenticationFailed:
            return None
        except ConfigError as error:
            raise KohortError(f"the login cannot be checked: {error}") from error
        return LoggedIn(name, WatchClients(as_user.admin, as_user.consumer))

    return check


def _without_login(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if "jaas" not in name}


def require_console() -> None:
    """Raise MissingExtra if Python packages of the console are missing, ConfigError if its static files are missing."""
    from kohort.console.page import ConsolePage

    ConsolePage()
    import kohort.console.serving  # noqa: F401 - raises MissingExtra


HELP = """Serve a page with live groups: lag, members, assignments over time, causes of rebalances, what-if.

The console listens on 127.0.0.1; any other address needs a login. With --allow-changes the page can reset offsets and
remove members, after a confirmation. Rebalances come from the journal of the cluster or of kohort watch. Without a
journal the console records one itself; --no-watch turns that off.

--recording shows a journal file of kohort watch, or the output of `kohort group events --output ndjson`. --export
writes one group as an HTML file that needs no server. Guide: docs/guides/console.md

\b
Examples:
  kohort console --profile prod --listen 127.0.0.1:8080
  kohort console --recording incident.ndjson
  kohort console --export incident.html --group my-group
  kohort console --listen 0.0.0.0:9310 --password-file secret \\
      --tls-cert cert.pem --tls-key key.pem --allow-host kafka-console
"""


@click.command(help=HELP, short_help="Show live groups and their history in a browser.")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=LISTEN,
    help=f"Address to listen on [{LISTEN}]. Port 0 selects a free port.",
)
@click.option("--allow-changes", is_flag=True, help="Allow changes of offsets, members and groups.")
@click.option(
    "--allow-host",
    metavar="NAME",
    multiple=True,
    help="Host name that browsers may use in the URL of the console; repeatable.",
)
@click.option("--login", type=click.Choice(["cluster"]), help="Require a login as a user of the cluster (SASL).")
@click.option("--password-file", type=FILE, help="File with the password for the console.")
@click.option("--tls-cert", type=FILE, help="Certificate chain for TLS (PEM).")
@click.option("--tls-key", type=FILE, help="Private key of the certificate (PEM).")
@click.option("--pipeline", "pipelines", type=FILE, multiple=True, help="Pipeline file to show; repeatable.")
@click.option("--recording", type=FILE, help="File with a recording, to show instead of a cluster.")
@click.option("--export", type=NEW_FILE, help="HTML file to write; needs --group.")
@click.option(
    "--group", "group_id", metavar="GROUP", shell_complete=complete_groups, help="Group to write with --export."
)
@click.option(
    "--interval", type=click.FloatRange(1, 3600), default=5.0, help="Seconds between two samples of the groups [5]."
)
@click.option("--watch/--no-watch", default=True, help="Record a journal, unless the cluster has one.")
@click.option("--max-groups", type=click.IntRange(1, 10_000), default=2_000, help="Maximum number of groups [2000].")
@click.option(
    "--journal-size", type=click.IntRange(1, 4_096), default=64, help="Maximum memory of the journal in MiB [64]."
)
@store_option
@cluster_options
@output_of(ConsoleReady)
def console(
    listen: str,
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
    **flags: Any,
) -> None:
    if (export is None) != (group_id is None):
        raise click.UsageError("--export and --group must be given together")
    require_console()
    if recording is not None:
        from kohort.console.recorded import read_recording

        source: ConsoleSource = read_recording(recording)
    else:
        from kohort.console.live import LiveSettings, LiveSource
        from kohort.watch.opening import WatchClients

        with cluster.admin() as admin:
            admin.describe_cluster()  # fail before the console starts if no broker answers
        settings = LiveSettings(interval, max_groups, journal_size, store, watch)
        source = LiveSource(WatchClients(cluster.admin, cluster.consumer), cluster.address, settings)
    if export is not None:
        write_export(source, group_id or "", export)
        click.echo(f"wrote {export}", err=True)
        return
    place, known = (listen, "--listen"), None if recording is not None else cluster
    serve_console(source, ConsoleFlags(**flags), place, known, output)


def serve_console(
    source: ConsoleSource,
    flags: ConsoleFlags,
    listen: tuple[str, str],
    cluster: ClusterAccess | None,
    output: str = "table",
) -> None:
    """Serve the console until SIGTERM or Ctrl-C. ``listen`` is a pair: the address, and the option that sets it."""
    from kohort.console.app import ConsoleApp
    from kohort.console.serving import console_served

    place, options = console_settings(flags, *listen, cluster)
    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(message)s", stream=sys.stderr)
    logging.getLogger("kohort.console").setLevel(logging.INFO)  # the console logs logins at level INFO
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
        path.write_text(page.single_file(exported(source, group)), encoding="utf-8")
    finally:
        source.end()
