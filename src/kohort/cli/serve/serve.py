"""``kohort serve``: run a broker until told to stop."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from kohort.cli.groups.watch import line_about
from kohort.cli.serve.console import LISTEN, ConsoleWanted, needs_console, served_as
from kohort.cli.terminal.cluster import SERVERS, ClusterAccess
from kohort.cli.terminal.exits import exit_code_of
from kohort.cli.terminal.output import output_of, print_result
from kohort.errors import ConfigError, KohortError
from kohort.results.programs import BrokerReady

if TYPE_CHECKING:
    from kohort.aio.serving.cluster_server import ClusterServer
    from kohort.aio.serving.server import Server
    from kohort.config.broker import BrokerConfig
    from kohort.watch.background import BackgroundWatch

FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)
CONSOLE_INTERVAL_S: Final = 5.0
CONSOLE_END_S: Final = 0.2
"""Most time to end the console; the broker's loop waits for it."""
HELP = """Run a broker that any Kafka client can connect to.

Without --data everything is kept in memory and ends with the process. With --data it is kept in DIR, in Kafka's own
format, and the next start goes on from there. The broker stops on SIGTERM or Ctrl-C, after writing out what it has.

Options are Kafka's, by Kafka's names: --set wins over --listen and --data, and those over --config FILE. In a
server.properties, what has no meaning for one broker (replication, controllers) is passed over with a warning.

\b
Examples:
  kohort serve                                   in memory, on 127.0.0.1:9092
  kohort serve --data ./kohort-data              on disk
  kohort serve --listen 127.0.0.1:0 --output json   a free port, told as JSON
  kohort serve --nodes 3                         three nodes, on 9092 to 9094
  kohort serve --metrics 127.0.0.1:9308          /metrics for Prometheus
  kohort serve --console                   and show its groups in a browser
  kohort serve --watch kafka:9092          and watch groups of another cluster
  kohort serve --set num.partitions=6 --set group.initial.rebalance.delay.ms=0
  kohort serve --config config/server.properties
  kohort serve --listen 127.0.0.1:9092 --listen SASL_SSL://myhost:9093 \\
      --config secured.properties                two listeners, one secured
  kohort serve --listen SASL_PLAINTEXT://127.0.0.1:9092 \\
      --add-scram SCRAM-SHA-256=[name=alice,password=...]   with a login
  kohort serve --listen :9092 --set advertised.listeners=myhost:9092 \\
      --allow-anyone                             for others, unsecured
"""


@click.command(help=HELP, short_help="Run a broker that any Kafka client can connect to.")
@click.option("--data", "data_dir", type=click.Path(file_okay=False, path_type=Path), help="Folder to keep data in.")
@click.option("--memory", is_flag=True, help="Keep everything in memory (the default without --data).")
@click.option(
    "--listen",
    metavar="[NAME://]HOST:PORT",
    multiple=True,
    help="Listener [PLAINTEXT://127.0.0.1:9092]; port 0 is a free one. May be repeated for several names.",
)
@click.option(
    "--allow-anyone", is_flag=True, help="Let other computers use a listener without TLS and logins, with all rights."
)
@click.option(
    "--nodes", type=click.IntRange(1, 100), default=1, help="Number of nodes, on ports counted up from --listen."
)
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set one of Kafka's broker options.")
@click.option("--config", "config_file", type=FILE, help="Broker options from a server.properties.")
@click.option(
    "--add-scram",
    metavar="MECHANISM=[name=...,...]",
    multiple=True,
    help="Add a SCRAM user, unless it exists: SCRAM-SHA-256=[name=alice,password=...]. To keep the password out of "
    "the list of processes, use kohort.add.scram in a --config FILE, or kohort users.",
)
@click.option("--metrics", metavar="HOST:PORT", help="Address of /metrics for Prometheus; 127.0.0.1:9308 is usual.")
@click.option("--metrics-compat", metavar="NAMES", help="Sets of names: kafka_exporter, jmx [kafka_exporter,jmx].")
@click.option("--metrics-allow-anyone", is_flag=True, help="Serve /metrics to other computers, by any name.")
@click.option("--watch", metavar="HOST:PORT", help="Watch the groups of another cluster, as kohort watch does.")
@click.option("--watch-config", type=FILE, help="Client options for that cluster, from a client.properties.")
@click.option("--watch-store", type=NEW_FILE, help="File for its journal.")
@click.option(
    "--console", is_flag=False, flag_value=LISTEN, metavar="[HOST:PORT]", help="Show the groups in a browser."
)
@click.option("--console-config", type=FILE, help="Client options of the console, for a secured broker.")
@click.option("--port-file", type=NEW_FILE, help="Write the port to FILE when ready.")
@output_of(BrokerReady)
@click.option("--quiet", is_flag=True, help="Log warnings and errors only.")
def serve(
    data_dir: Path | None,
    memory: bool,
    listen: tuple[str, ...],
    allow_anyone: bool,
    nodes: int,
    settings: tuple[str, ...],
    config_file: Path | None,
    add_scram: tuple[str, ...],
    metrics_allow_anyone: bool,
    quiet: bool,
    **given: Any,
) -> None:
    if given["console_config"] is not None and given["console"] is None:
        raise click.UsageError("--console-config goes with --console")
    start_logging(quiet=quiet)
    try:
        if add_scram:
            settings = (*settings, "kohort.add.scram=" + "\n".join(add_scram))
        for name in ("listen", "compat"):
            value = given["metrics" if name == "listen" else "metrics_compat"]
            if value is not None:
                settings = (*settings, f"kohort.metrics.{name}={value}")
        config, folder = configure(data_dir, listen, settings, config_file, memory=memory)
        config = replace(config, allow_anyone=config.allow_anyone or allow_anyone)
        config = replace(config, metrics_allow_anyone=config.metrics_allow_anyone or metrics_allow_anyone)
        watching = watch_of(given["watch"], given["watch_config"], given["watch_store"])
        if given["console"] is not None:
            needs_console()
        console = given["console"], given["console_config"]
        _run(config, nodes, folder, Besides(given["port_file"], given["output"], watching, *console))
    except KohortError as error:
        click.echo(f"kohort serve: {error}", err=True)
        sys.exit(exit_code_of(error))


def configure(
    data_dir: Path | None, listen: Sequence[str], settings: Sequence[str], config_file: Path | None, *, memory: bool
) -> tuple[BrokerConfig, Path | None]:
    """Return the broker's configuration and its data folder. Raises ConfigError."""
    from kohort.config.broker import BrokerConfig
    from kohort.config.listeners import check_listeners, parse_endpoint
    from kohort.config.options import parse_config
    from kohort.config.properties import parse_properties
    from kohort.config.server_properties import understand, with_mechanisms

    given: dict[str, Any] = {}
    folder = None
    if config_file is not None:
        try:
            said = understand(parse_properties(config_file.read_text()))
        except ConfigError as error:
            raise ConfigError(f"{config_file}: {error}") from None
        given |= said.options
        folder = Path(said.data_dir) if said.data_dir else None
        _tell_ignored(str(config_file), said.ignored)
    if listen:  # of one name the last holds
        named = {parse_endpoint(text, "--listen")[0]: text for text in listen}
        given |= understand({"listeners": ",".join(named.values())}).options
    pairs = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: expected KEY=VALUE")
        pairs[name.strip()] = value
    said = understand(pairs)
    _tell_ignored("--set", said.ignored)
    given |= said.options
    _check_short_way(given, pairs)
    folder = data_dir or (Path(said.data_dir) if said.data_dir else None) or folder
    if memory:
        if data_dir is not None:
            raise ConfigError("--memory and --data: choose one")
        folder = None
    config = parse_config(BrokerConfig, with_mechanisms(given))
    check_listeners(config)
    return config, folder


def _check_short_way(given: Mapping[str, Any], pairs: Mapping[str, str]) -> None:
    for name in ("host.name", "port"):
        if given.get("listeners") and name in pairs:
            raise ConfigError(f"--set {name}={pairs[name]}: the broker listens on {given['listeners']}; change that")


def _tell_ignored(where: str, names: Sequence[str]) -> None:
    import logging

    if names:
        logging.getLogger("kohort.serve").warning("%s: passed over, without meaning here: %s", where, ", ".join(names))


def start_logging(*, quiet: bool) -> None:
    import logging

    logging.basicConfig(
        level=logging.WARNING if quiet else logging.INFO,
        format="%(asctime)s %(levelname)-7s %(message)s",
        stream=sys.stderr,
    )


class Besides(NamedTuple):
    port_file: Path | None
    output: str
    watching: BackgroundWatch | None
    console: str | None
    console_config: Path | None


@contextmanager
def console_beside(listen: str, config_file: Path | None, bootstrap: str) -> Iterator[str]:
    """Serve a console of the broker at ``bootstrap``, on a thread with own clients, and yield its address."""
    from kohort.config.client_files import read_client_file
    from kohort.console.app import ConsoleApp
    from kohort.console.live import LiveSettings, LiveSource
    from kohort.console.serving import console_served
    from kohort.watch.opening import WatchClients

    options = {} if config_file is None else dict(read_client_file(config_file, os.environ).options)
    cluster = ClusterAccess({**options, SERVERS: bootstrap}, where=str(config_file or ""))
    place, limits = served_as(ConsoleWanted(), listen, "--console", cluster)
    settings = LiveSettings(interval_s=CONSOLE_INTERVAL_S, watch=False, end_s=CONSOLE_END_S)  # the broker has a journal
    source = LiveSource(WatchClients(cluster.admin, cluster.consumer), bootstrap, settings)
    with console_served(source, ConsoleApp(source, limits), place) as url:
        yield url


def watch_of(address: str | None, config_file: Path | None, store: Path | None) -> BackgroundWatch | None:
    """Return a watcher that has not started. Raises UsageError without an address, ConfigError for bad options."""
    if address is None and config_file is None:
        return None
    import logging

    from kohort.config.client_files import read_client_file
    from kohort.watch.background import BackgroundWatch
    from kohort.watch.opening import WatchClients, WatchSettings

    options = {} if config_file is None else dict(read_client_file(config_file, os.environ).options)
    if address is not None:
        options[SERVERS] = address
    if SERVERS not in options:
        raise click.UsageError("--watch-config names no bootstrap.servers: add --watch HOST:PORT")
    cluster = ClusterAccess(options, where=str(config_file or ""))
    cluster.admin().close()  # checks the options
    logger = logging.getLogger("kohort.watch")
    return BackgroundWatch(
        WatchClients(cluster.admin, cluster.consumer),
        cluster.address,
        WatchSettings(store=store),
        tell=lambda text: logger.warning("%s", text),
        told=lambda rebalance: logger.info("%s", line_about(rebalance)),
    )


def _run(config: BrokerConfig, nodes: int, folder: Path | None, wanted: Besides) -> None:
    from kohort.aio.io_thread import new_loop
    from kohort.aio.serving.cluster_server import run
    from kohort.config.kafka_releases import NEWEST

    at: list[str] = []
    consoles: list[str] = []

    @contextmanager
    def beside(server: Server | ClusterServer) -> Iterator[None]:
        with ExitStack() as stack:
            watching = wanted.watching
            if watching is not None:
                watching.begin()
                stack.callback(watching.end)
            if wanted.console is not None:
                bootstrap = next(iter(server.addresses.values()))
                started = console_beside(wanted.console, wanted.console_config, bootstrap)
                consoles.append(stack.enter_context(started))
            if config.metrics_listen is not None:
                from kohort.metrics.broker_page import serve_broker_metrics

                watched = None if watching is None else lambda: watching.view
                at.append(stack.enter_context(serve_broker_metrics(server, config, config.metrics_listen, watched)))
            yield

    def ready(addresses: Mapping[str, str], cluster_id: str) -> None:
        bootstrap = next(iter(addresses.values()))
        if wanted.port_file is not None:
            write_whole(wanted.port_file, f"{bootstrap.split(',', maxsplit=1)[0].rpartition(':')[2]}\n")
        if wanted.output != "table":
            told = BrokerReady(
                bootstrap=bootstrap,
                listeners=dict(addresses),
                cluster_id=cluster_id,
                data=str(folder) if folder else None,
                as_version=config.as_version,
                metrics=at[0] if at else None,
                console=consoles[0] if consoles else None,
            )
            print_result(told, "ndjson")  # one line, for whoever waits for one
        else:
            where = f"data {folder}" if folder else "in memory"
            named = (
                [f"{name}://{address}" for name, address in addresses.items()] if len(addresses) > 1 else [bootstrap]
            )
            on = " and ".join(named)
            stands_in = "" if config.as_version == NEWEST else f", as Apache Kafka {config.as_version}"
            click.echo(f"kohort broker{'s' * (nodes > 1)} ready on {on} (cluster {cluster_id}, {where}{stands_in})")
            for url in at:
                click.echo(f"metrics on {url}")
            for url in consoles:
                click.echo(f"console on {url}")
        sys.stdout.flush()

    loop = new_loop()
    try:
        loop.run_until_complete(run(config, nodes, folder, ready, beside))
    finally:
        loop.close()


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step, so that a reader never sees half of it."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text)
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"--port-file {path}: {error.strerror}") from None
