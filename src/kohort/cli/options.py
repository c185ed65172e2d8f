"""Options that many commands share; those to reach a cluster are in cluster.py."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

ADMIN_MS: Final = 15_000
"""How long one question to the cluster may take."""

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed; where nobody can be asked, --yes must have been given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Give --yes to confirm.")
    click.confirm(question, abort=True, err=True)
