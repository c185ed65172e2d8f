"""The command ``kohort`` and its groups of commands."""

from __future__ import annotations

import click


@click.group()
def main() -> None:
    """Kafka consumer groups, in Python, whole."""
