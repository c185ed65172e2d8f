"""Options that select groups, as in Kafka's own tool: GROUP..., --group or --all-groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from kohort.cli.terminal.cluster import complete_groups
from kohort.cli.terminal.options import ADMIN_MS, with_options

if TYPE_CHECKING:
    from kohort.aio.admin import Admin

several_groups = with_options(
    click.argument("names", metavar="[GROUP]...", nargs=-1, shell_complete=complete_groups),
    click.option(
        "--group",
        "more",
        metavar="GROUP",
        multiple=True,
        shell_complete=complete_groups,
        help="Group to select, like the argument GROUP; repeatable.",
    ),
    click.option("--all-groups", is_flag=True, help="Select all groups of the classic and the consumer protocol."),
)
"""Decorator that gives a command the parameters ``names`` (GROUP...), ``more`` (--group) and ``all_groups``."""


def is_one(given: Mapping[str, Any]) -> bool:
    return len({*given["names"], *given["more"]}) == 1 and not given["all_groups"]


def chosen_groups(admin: Admin, named: Sequence[str], *, every: bool) -> list[str]:
    """Return the named groups, or all groups if ``every``.

    Raises UsageError if the caller gives both names and ``every``, or neither.
    """
    names = list(dict.fromkeys(named))
    if bool(names) == every:
        raise click.UsageError("expected either GROUP or --all-groups")
    if names:
        return names
    return sorted(g.group_id for g in admin.list_groups(timeout_ms=ADMIN_MS) if g.protocol_type in ("", "consumer"))
