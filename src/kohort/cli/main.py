"""The command ``kohort`` and its groups of commands."""

from __future__ import annotations

import click

from kohort.cli.serve import serve


@click.group()
def main() -> None:
    """Kafka consumer groups, in Python, whole."""


main.add_command(serve)
