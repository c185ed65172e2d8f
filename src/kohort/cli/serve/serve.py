"""``kohort serve``: run a broker until told to stop."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kohort.cli.serve.beside import ConsoleBeside, console_beside_options, watch_options
from kohort.cli.terminal.exits import exit_code_of
from kohort.cli.terminal.output import output_of, print_result
from kohort.errors import ConfigError, KohortError
from kohort.results.programs import BrokerReady

if TYPE_CHECKING:
    from kohort.aio.serving.cluster_server import ClusterServer
    from kohort.aio.serving.server import Server
    from kohort.config.broker import BrokerConfig
    from kohort.watch.background import BackgroundWatch

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
    help="Address to listen on [PLAINTEXT://127.0.0.1:9092]; port 0 takes a free one. May be given for several names.",
)
@click.option(
    "--allow-anyone",
    is_flag=True,
    help="Let other computers reach a listener without TLS and logins: whoever reaches it may do everything.",
)
@click.option(
    "--nodes",
    type=click.IntRange(min=1, max=100),
    default=1,
    help="How many nodes to run over the same data, on ports counted up from that of --listen.",
)
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set one of Kafka's broker options.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read options from a server.properties.",
)
@click.option(
    "--add-scram",
    metavar="MECHANISM=[name=...,...]",
    multiple=True,
    help="Add a user who logs in by SCRAM, unless it is there: SCRAM-SHA-256=[name=alice,password=...]. To keep the "
    "password out of the list of processes, use kohort.add.scram in a --config FILE, or kohort users.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Serve /metrics for Prometheus there (docs/guides/metrics.md); 127.0.0.1:9308 is usual.",
)
@click.option(
    "--metrics-compat",
    metavar="NAMES",
    help="By whose names groups are shown, too: kafka_exporter, jmx [kafka_exporter,jmx].",
)
@click.option("--metrics-allow-anyone", is_flag=True, help="Serve /metrics to other computers, by any name.")
@watch_options
@console_beside_options
@click.option("--port-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the port to FILE when ready.")
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
    metrics: str | None,
    metrics_compat: str | None,
    metrics_allow_anyone: bool,
    port_file: Path | None,
    output: str,
    quiet: bool,
    watching: BackgroundWatch | None,
    beside: ConsoleBeside | None,
) -> None:
    start_logging(quiet=quiet)
    try:
        if add_scram:
            settings = (*settings, "kohort.add.scram=" + "\n".join(add_scram))
        if metrics is not None:
            settings = (*settings, f"kohort.metrics.listen={metrics}")
        if metrics_compat is not None:
            settings = (*settings, f"kohort.metrics.compat={metrics_compat}")
        config, folder = configure(data_dir, listen, settings, config_file, memory=memory)
        config = replace(config, allow_anyone=config.allow_anyone or allow_anyone)
        config = replace(config, metrics_allow_anyone=config.metrics_allow_anyone or metrics_allow_anyone)
        _run(config, nodes, folder, Besides(port_file, output, watching, beside))
    except KohortError as error:
        click.echo(f"kohort serve: {error}", err=True)
        sys.exit(exit_code_of(error))


def configure(
    data_dir: Path | None, listen: Sequence[str], settings: Sequence[str], config_file: Path | None, *, memory: bool
) -> tuple[BrokerConfig, Path | None]:
    """Return the broker's configuration and its data folder, from everything that was said. Raises ConfigError."""
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
    """Raise ConfigError where host or port is set and would not hold."""
    for name in ("host.name", "port"):
        if given.get("listeners") and name in pairs:
            raise ConfigError(f"--set {name}={pairs[name]}: the broker listens on {given['listeners']}; change that")


def _tell_ignored(where: str, names: Sequence[str]) -> None:
    import logging

    if names:
        logging.getLogger("kohort.serve").warning("%s: passed over, without meaning here: %s", where, ", ".join(names))


def start_logging(*, quiet: bool) -> None:
    """Lines on stderr, with the time."""
    import logging

    logging.basicConfig(
        level=logging.WARNING if quiet else logging.INFO,
        format="%(asctime)s %(levelname)-7s %(message)s",
        stream=sys.stderr,
    )


class Besides(NamedTuple):
    """What is wanted besides brokers: the port in a file, how it is said that they are ready, another
    cluster watched."""

    port_file: Path | None
    output: str
    watching: BackgroundWatch | None
    console: ConsoleBeside | None = None


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
                consoles.append(stack.enter_context(wanted.console.begun(bootstrap)))
            if config.metrics_listen is not None:
                from kohort.metrics.beside_a_broker import metrics_beside

                watched = None if watching is None else lambda: watching.view
                at.append(stack.enter_context(metrics_beside(server, config, config.metrics_listen, watched)))
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
    """Write ``path`` so that whoever waits for it never reads half of it."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text)
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"--port-file {path}: {error.strerror}") from None
