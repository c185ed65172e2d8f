"""Commands of other Python packages, declared as entry points in the group ``kohort.commands``.

An entry point maps the name of a command to a click command: ``sim = "kohort_lab.commands.sim:sim"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from kohort.errors import KohortError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

GROUP: Final = "kohort.commands"


class PluginBroken(KohortError):
    pass


def plugins() -> dict[str, str]:
    return {entry.name: f"Command of {_source(entry)}." for entry in sorted(_entries(), key=lambda entry: entry.name)}


def plugin_command(name: str) -> click.Command | None:
    """Return the command called ``name``, if an installed Python package declares one; else None.

    If the import fails, returns a command that raises the import error.
    """
    for entry in _entries().select(name=name):
        return _loaded(entry)
    return None


def _entries() -> EntryPoints:
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _source(entry: EntryPoint) -> str:
    return f"the package {entry.dist.name}" if entry.dist else entry.value


def _loaded(entry: EntryPoint) -> click.Command:
    try:
        command = entry.load()
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        return _broken(entry, f"{type(error).__name__}: {error}")
    return command if isinstance(command, click.Command) else _broken(entry, f"{entry.value} is not a click command")


def _broken(entry: EntryPoint, reason: str) -> click.Command:
    def fail(**_options: Any) -> None:
        raise PluginBroken(f"{_source(entry)} cannot be loaded ({reason}); reinstall or remove it")

    return click.Command(
        entry.name,
        callback=fail,
        short_help=f"Broken: {reason}",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
