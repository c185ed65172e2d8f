"""``kohort serve``: run a broker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kohort.cli.serve.console import LISTEN, ConsoleFlags, console_settings, require_console
from kohort.cli.terminal.cluster import SERVERS, ClusterAccess
from kohort.cli.terminal.exits import exit_code_of
from kohort.cli.terminal.options import FILE, NEW_FILE
from kohort.cli.terminal.output import output_of, print_result
from kohort.errors import ConfigError, KohortError
from kohort.results.programs import BrokerReady

if TYPE_CHECKING:
    from kohort.aio.serving.cluster_server import ClusterServer
    from kohort.aio.serving.server import Server
    from kohort.config.broker import BrokerConfig

CONSOLE_INTERVAL_S: Final = 5.0
CONSOLE_END_S: Final = 0.2
"""Maximum time in seconds to wait for the end of the console. The wait blocks the broker's event loop."""
HELP = """Run a broker that any Kafka client can connect to.

Without --data all records are in memory, and are lost when the process ends. With --data they are in the folder DIR, in
Kafka's own format, and the next start loads them. SIGTERM or Ctrl-C stops the broker after a flush to disk.

Broker options have Kafka's names. --set wins over --listen and --data, and these win over --config FILE. Options of
server.properties that have no meaning for one broker (replication, controllers) are ignored with a warning.

\b
Examples:
  kohort serve                                   in memory, on 127.0.0.1:9092
  kohort serve --data ./kohort-data              on disk
  kohort serve --listen 127.0.0.1:0 --output json   on a free port
  kohort serve --nodes 3                         three nodes, on 9092 to 9094
  kohort serve --metrics 127.0.0.1:9308          /metrics for Prometheus
  kohort serve --console                         groups in a browser
  kohort serve --set num.partitions=6 --set group.initial.rebalance.delay.ms=0
  kohort serve --config config/server.properties
  kohort serve --listen 127.0.0.1:9092 --listen SASL_SSL://myhost:9093 \\
      --config secured.properties                two listeners, one secured
  kohort serve --listen SASL_PLAINTEXT://127.0.0.1:9092 \\
      --add-scram SCRAM-SHA-256=[name=alice,password=...]
  kohort serve --listen :9092 --set advertised.listeners=myhost:9092 \\
      --allow-anyone                             open to all computers
"""


@click.command(help=HELP, short_help="Run a broker that any Kafka client can connect to.")
@click.option(
    "--data", "data_dir", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), help="Folder for all data."
)
@click.option("--memory", is_flag=True, help="Keep all data in memory (the default without --data).")
@click.option(
    "--listen",
    metavar="[NAME://]HOST:PORT",
    multiple=True,
    help="Listener [PLAINTEXT://127.0.0.1:9092]. Port 0: a free port. Repeatable, with different listener names.",
)
@click.option(
    "--allow-anyone", is_flag=True, help="Allow other computers all rights on a listener without TLS and login."
)
@click.option("--nodes", type=click.IntRange(1, 100), default=1, help="Number of nodes, on consecutive ports.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set one of Kafka's broker options.")
@click.option("--config", "config_file", type=FILE, help="File with broker options (server.properties).")
@click.option(
    "--add-scram",
    metavar="MECHANISM=[name=...,...]",
    multiple=True,
    help="SCRAM user to add, unless it exists: SCRAM-SHA-256=[name=alice,password=...]. Other users of this computer "
    "can read a command line: use kohort.add.scram in a --config FILE, or kohort users, for secret passwords.",
)
@click.option(
    "--metrics", metavar="HOST:PORT", help="Address on which to serve /metrics for Prometheus, such as 127.0.0.1:9308."
)
@click.option("--metrics-compat", metavar="NAMES", help="Sets of metric names: kafka_exporter, jmx [both].")
@click.option("--metrics-allow-anyone", is_flag=True, help="Serve /metrics to all computers, under any host name.")
@click.option("--console", is_flag=False, flag_value=LISTEN, metavar="[HOST:PORT]", help="Show groups in a browser.")
@click.option(
    "--console-config", type=FILE, help="File with client options for the console, needed with a secured broker."
)
@click.option("--port-file", type=NEW_FILE, help="Write the port to FILE when the broker is ready.")
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
    metrics: str | None,
    metrics_compat: str | None,
    console: str | None,
    console_config: Path | None,
    port_file: Path | None,
    output: str,
) -> None:
    if console_config is not None and console is None:
        raise click.UsageError("--console-config needs --console")
    level = logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)-7s %(message)s", stream=sys.stderr)
    try:
        if add_scram:
            settings = (*settings, "kohort.add.scram=" + "\n".join(add_scram))
        for name, value in (("listen", metrics), ("compat", metrics_compat)):
            if value is not None:
                settings = (*settings, f"kohort.metrics.{name}={value}")
        config, folder = configure(data_dir, listen, settings, config_file, memory=memory)
        config = replace(
            config,
            allow_anyone=config.allow_anyone or allow_anyone,
            metrics_allow_anyone=config.metrics_allow_anyone or metrics_allow_anyone,
        )
        if console is not None:
            require_console()
        if config.metrics_listen is not None:
            _require_metrics()
        _run(config, nodes, folder, port_file, output, console, console_config)
    except KohortError as error:
        click.echo(f"kohort serve: {error}", err=True)
        sys.exit(exit_code_of(error))


def configure(
    data_dir: Path | None, listen: Sequence[str], settings: Sequence[str], config_file: Path | None, *, memory: bool
) -> tuple[BrokerConfig, Path | None]:
    """Return the broker's configuration and its data folder (None: data in memory). Raises ConfigError."""
    from kohort.config.broker import BrokerConfig
    from kohort.config.listeners import check_listeners, parse_endpoint
    from kohort.config.options import parse_config
    from kohort.config.properties import parse_properties
    from kohort.config.server_properties import understand, with_mechanisms

    given: dict[str, Any] = {}
    folder = None
    if config_file is not None:
        try:
            found = understand(parse_properties(config_file.read_text()))
        except ConfigError as error:
            raise ConfigError(f"{config_file}: {error}") from None
        given |= found.options
        folder = Path(found.data_dir) if found.data_dir else None
        _warn_ignored(str(config_file), found.ignored)
    if listen:  # if several --listen options have the same listener name, the last one counts
        named = {parse_endpoint(text, "--listen")[0]: text for text in listen}
        given |= understand({"listeners": ",".join(named.values())}).options
    pairs = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: expected KEY=VALUE")
        pairs[name.strip()] = value
    found = understand(pairs)
    _warn_ignored("--set", found.ignored)
    given |= found.options
    _check_host_and_port(given, pairs)
    folder = data_dir or (Path(found.data_dir) if found.data_dir else None) or folder
    if memory:
        if data_dir is not None:
            raise ConfigError("--memory and --data exclude each other")
        folder = None
    config = parse_config(BrokerConfig, with_mechanisms(given))
    check_listeners(config)
    return config, folder


def _check_host_and_port(given: Mapping[str, Any], pairs: Mapping[str, str]) -> None:
    for name in ("host.name", "port"):
        if given.get("listeners") and name in pairs:
            listeners = given["listeners"]
            raise ConfigError(f"--set {name}={pairs[name]} has no effect: listeners={listeners} wins; change listeners")


def _warn_ignored(where: str, names: Sequence[str]) -> None:
    if names:
        logging.getLogger("kohort.serve").warning("%s: ignored options without effect: %s", where, ", ".join(names))


def _require_metrics() -> None:
    """Raise MissingExtra before the broker listens if the package of --metrics is missing."""
    from kohort.metrics.exposition import check_extra

    check_extra()


@contextmanager
def console_of_broker(listen: str, config_file: Path | None, bootstrap: str) -> Iterator[str]:
    """Serve a console for the broker at ``bootstrap`` in a separate thread. Yields the console's URL."""
    from kohort.config.client_files import read_client_file
    from kohort.console.app import ConsoleApp
    from kohort.console.live import LiveSettings, LiveSource
    from kohort.console.serving import console_served
    from kohort.watch.opening import WatchClients

    options = {} if config_file is None else dict(read_client_file(config_file, os.environ).options)
    cluster = ClusterAccess({**options, SERVERS: bootstrap}, file_name=str(config_file or ""))
    place, limits = console_settings(ConsoleFlags(), listen, "--console", cluster)
    # the console needs no watcher, since kohort's broker writes a journal of group events itself
    settings = LiveSettings(interval_s=CONSOLE_INTERVAL_S, watch=False, end_s=CONSOLE_END_S)
    source = LiveSource(WatchClients(cluster.admin, cluster.consumer), bootstrap, settings)
    with console_served(source, ConsoleApp(source, limits), place) as url:
        yield url


def _run(
    config: BrokerConfig,
    nodes: int,
    folder: Path | None,
    port_file: Path | None,
    output: str,
    console: str | None,
    console_config: Path | None,
) -> None:
    from kohort.aio.io_thread import new_loop
    from kohort.aio.serving.cluster_server import run
    from kohort.config.kafka_releases import NEWEST

    urls: dict[str, str] = {}

    @contextmanager
    def metrics_and_console(server: Server | ClusterServer) -> Iterator[None]:
        with ExitStack() as stack:
            if console is not None:
                bootstrap = next(iter(server.addresses.values()))
                urls["console"] = stack.enter_context(console_of_broker(console, console_config, bootstrap))
            if config.metrics_listen is not None:
                from kohort.metrics.broker_page import serve_broker_metrics

                urls["metrics"] = stack.enter_context(serve_broker_metrics(server, config, config.metrics_listen))
            yield

    def ready(addresses: Mapping[str, str], cluster_id: str) -> None:
        bootstrap = next(iter(addresses.values()))
        if port_file is not None:
            write_atomically(port_file, f"{bootstrap.split(',', maxsplit=1)[0].rpartition(':')[2]}\n")
        if output != "table":
            result = BrokerReady(
                bootstrap=bootstrap,
                listeners=dict(addresses),
                cluster_id=cluster_id,
                data=str(folder) if folder else None,
                as_version=config.as_version,
                metrics=urls.get("metrics"),
                console=urls.get("console"),
            )
            # print JSON on one line, also on a terminal: a program that starts the broker reads this line
            print_result(result, "ndjson")
        else:
            where = f"data {folder}" if folder else "in memory"
            one = len(addresses) == 1
            on = bootstrap if one else " and ".join(f"{name}://{address}" for name, address in addresses.items())
            version = "" if config.as_version == NEWEST else f", as Apache Kafka {config.as_version}"
            click.echo(f"kohort broker{'s' * (nodes > 1)} ready on {on} (cluster {cluster_id}, {where}{version})")
            for name in ("metrics", "console"):
                if name in urls:
                    click.echo(f"{name} on {urls[name]}")
        sys.stdout.flush()

    loop = new_loop()
    try:
        loop.run_until_complete(run(config, nodes, folder, ready, metrics_and_console))
    finally:
        loop.close()


def write_atomically(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text)
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"--port-file {path}: {error.strerror}") from None
