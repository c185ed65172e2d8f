"""The command ``kohort``: the table of its subcommands, and the exit code after an error or an interrupt.

A subcommand is imported only when it is called, so that ``kohort --help`` starts fast. ``terminal/exits.py`` defines
the exit codes.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Final

import click

from kohort.cli.plugins import plugin_command, plugins
from kohort.cli.terminal.exits import ExitCode, exit_code_of, sigterm_interrupts
from kohort.cli.terminal.show import harmless
from kohort.errors import KohortError
from kohort.version import VERSION

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "serve": ("kohort.cli.serve.serve:serve", "Run a broker that any Kafka client can connect to."),
    "nodes": ("kohort.cli.cluster.nodes:nodes", "List, stop and start the nodes of a cluster; move leaders."),
    "topics": ("kohort.cli.cluster.topics:topics", "Create, list, describe and delete topics."),
    "produce": ("kohort.cli.records.produce:produce", "Send lines from files or stdin to a topic."),
    "consume": ("kohort.cli.records.consume:consume", "Print the records of topics."),
    "dead-letters": (
        "kohort.cli.records.dead_letters:dead_letters",
        "Count, show and replay records that handlers could not handle.",
    ),
    "groups": ("kohort.cli.groups.groups:groups", "List the groups with lag and health, the worst first."),
    "watch": ("kohort.cli.groups.watch:watch", "Record and print the rebalances of groups, with their causes."),
    "group": ("kohort.cli.group.commands:group", "Describe, explain or delete a group, or reset its offsets."),
    "console": ("kohort.cli.serve.console:console", "Show live groups and their history in a browser."),
    "doctor": ("kohort.cli.groups.groups:doctor", "Report problems of groups, with advice."),
    "explain": ("kohort.cli.groups.explain:explain", "Explain a cause of rebalances, or an error code."),
    "metrics": ("kohort.cli.serve.metrics:metrics", "Print or serve Prometheus metrics of groups and topics."),
    "client-metrics": (
        "kohort.cli.cluster.client_metrics:client_metrics",
        "Manage and show metrics that clients push.",
    ),
    "transactions": ("kohort.cli.cluster.transactions:transactions", "List, describe and abort transactions."),
    "acls": ("kohort.cli.cluster.acls:acls", "List, add and remove ACLs."),
    "users": ("kohort.cli.cluster.users:users", "List, add and remove users with SCRAM passwords."),
    "quotas": ("kohort.cli.cluster.quotas:quotas", "List, set and remove quotas of users, client ids and addresses."),
    "pipeline": ("kohort.cli.pipeline.commands:pipeline", "Check and run Spark pipelines over consumer groups."),
    "demo": ("kohort.cli.demo:demo", "Run broker, consumers and Spark on real data, end to end."),
    "completion": ("kohort.cli.main:completion", "Print the completion script of a shell."),
}

HELP = """Kafka consumer groups for Python: a broker in one process, and tools for any Kafka cluster.

Commands that connect to a cluster need --bootstrap HOST:PORT, or KOHORT_BOOTSTRAP. For a secured cluster add --config
client.properties, or --profile NAME for an entry of ~/.config/kohort/clusters.toml. Data goes to stdout, messages go to
stderr.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 not found, 4 no answer in time, 5 conflict with the present state
(the group has members), 6 not authorised, 7 a check failed, 130 interrupted.

\b
Examples:
  kohort serve                         a broker on 127.0.0.1:9092
  kohort topics create orders --partitions 6
  echo 'k1|{"n": 1}' | kohort produce orders --key-separator '|'
  kohort consume orders --from-beginning --max 10
  kohort group why my-group            the cause of its last rebalance
"""


class Commands(click.Group):
    """Subcommands of kohort and of plugins. An error is printed as one line on stderr, without a traceback."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(self._short_helps())

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return plugin_command(name)
        module, _, attribute = COMMANDS[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._short_helps().items()))

    def _short_helps(self) -> dict[str, str]:
        own = {name: short for name, (_, short) in COMMANDS.items()}
        return own | {name: short for name, short in plugins().items() if name not in own}

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with sigterm_interrupts():
                return super().invoke(ctx)
        except KohortError as error:
            if ctx.params.get("debug"):
                raise
            fail(ctx, str(error), exit_code_of(error))
        except BrokenPipeError:
            # the reader of stdout closed the pipe (``| head``): without a new stdout, Python's flush at exit would fail
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(ExitCode.DONE)
        except OSError as error:
            if ctx.params.get("debug"):
                raise
            fail(ctx, f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except (KeyboardInterrupt, click.Abort):
            click.echo("", err=True)
            ctx.exit(ExitCode.INTERRUPTED)


def fail(ctx: click.Context, message: str, code: ExitCode = ExitCode.FAILED) -> None:
    click.echo(harmless(f"kohort {ctx.invoked_subcommand}: {message}"), err=True)
    ctx.exit(code)


@click.group(cls=Commands, help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, envvar="KOHORT_DEBUG", help="Show the traceback of an error.")
@click.version_option(VERSION, prog_name="kohort")
def main(debug: bool) -> None:
    pass


COMPLETION_HELP = """Print the completion script of SHELL, for its start-up file.

The script completes names of topics, groups and users with a request to the cluster that --bootstrap, --config or
--profile selects. The cluster must answer within one second.

\b
Examples:
  kohort completion bash >> ~/.bashrc
  kohort completion zsh > ~/.zfunc/_kohort
  kohort completion fish > ~/.config/fish/completions/kohort.fish
"""


@click.command(help=COMPLETION_HELP, short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    from click.shell_completion import get_completion_class

    make = get_completion_class(shell)
    assert make is not None, "click knows these three shells"
    script = make(ctx.find_root().command, {}, "kohort", "_KOHORT_COMPLETE")
    click.echo(script.source_template % script.source_vars())
