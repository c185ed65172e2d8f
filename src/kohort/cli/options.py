"""Options that many commands share, and the names that a shell can complete."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from kohort.errors import KohortError

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP: Final = "localhost:9092"
ADMIN_MS: Final = 15_000
"""How long one question to the cluster may take."""
COMPLETION_MS: Final = 1_000

bootstrap_option = click.option(
    "--bootstrap",
    metavar="HOST:PORT",
    envvar="KOHORT_BOOTSTRAP",
    default=DEFAULT_BOOTSTRAP,
    show_default=True,
    help="A broker of the cluster, or several with commas; also KOHORT_BOOTSTRAP.",
)
output_option = click.option(
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    envvar="KOHORT_OUTPUT",
    help="Tables for people, JSON for programs.",
)
set_option = click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set one of Kafka's client options."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """``KEY=VALUE`` texts as a dict. Raises BadParameter for one without ``=``."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{text!r}: expected KEY=VALUE", param_hint=option)
        found[key.strip()] = value
    return found


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed; where nobody can be asked, --yes must have been given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Give --yes to confirm.")
    click.confirm(question, abort=True, err=True)


def complete_topics(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return names of topics for the shell."""
    return _complete(ctx, incomplete, lambda admin: [t.name for t in admin.list_topics(timeout_ms=COMPLETION_MS)])


def complete_groups(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return names of groups for the shell."""
    return _complete(ctx, incomplete, lambda admin: [g.group_id for g in admin.list_groups(timeout_ms=COMPLETION_MS)])


def _complete(ctx: click.Context, incomplete: str, names: Callable[[Any], list[str]]) -> list[str]:
    """Return what begins with ``incomplete``; nothing where the broker does not answer soon."""
    from kohort import Admin

    try:
        with Admin(bootstrap_servers=ctx.params.get("bootstrap") or DEFAULT_BOOTSTRAP) as admin:
            return [name for name in names(admin) if name.startswith(incomplete)]
    except KohortError:
        return []
