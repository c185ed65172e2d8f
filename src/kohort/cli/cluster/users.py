"""``kohort users``: list, add and remove users with SCRAM passwords."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_users
from kohort.cli.terminal.options import ADMIN_MS, confirm, yes_option
from kohort.cli.terminal.output import output_of, report_lines, report_rows
from kohort.errors import KohortError
from kohort.results.cluster import MechanismRow, RemovedPassword, UserAdded, UserRow, UsersListed, UsersRemoved
from kohort.secret import Secret

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
mechanism_option = click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(MECHANISMS),
    multiple=True,
    help="SCRAM mechanism [default: both mechanisms].",
)


@click.group(short_help="List, add and remove users with SCRAM passwords.")
def users() -> None:
    """List, add and remove users with passwords: SCRAM-SHA-256 and SCRAM-SHA-512.

    The password itself is neither sent nor stored; brokers store a salted hash.
    """


@users.command("list", short_help="List users and their mechanisms.")
@click.argument("names", metavar="[USER]...", nargs=-1, shell_complete=complete_users)
@cluster_options
@output_of(UsersListed)
def list_users(names: tuple[str, ...], cluster: ClusterAccess, output: str) -> None:
    """List users and the SCRAM mechanisms of their passwords.

    \b
    Examples:
      kohort users list
      kohort users list alice --output json | jq '.users[].mechanisms'
    """
    with cluster.admin() as admin:
        found = admin.describe_user_scram_credentials(list(dict.fromkeys(names)) or None, timeout_ms=ADMIN_MS).check()
    about = [
        UserRow(user=user, mechanisms=[MechanismRow(name=i.mechanism, iterations=i.iterations) for i in infos])
        for user, infos in found.items()
    ]
    rows = [(user, info.mechanism, info.iterations) for user, infos in found.items() for info in infos]
    report_rows(output, UsersListed(users=about), ("USER", "MECHANISM", "ITERATIONS"), rows, none="no users")


ADD_HELP = """Add USER with a SCRAM password, or change the password.

The command asks for the password on the terminal. Scripts pass it in an environment variable, in a file, or on stdin
(--password-file -).

\b
Examples:
  kohort users add alice
  kohort users add alice --password-env ALICE_PASSWORD
  kohort users add alice --password-file alice.txt --mechanism SCRAM-SHA-512
"""


@users.command(help=ADD_HELP, short_help="Add a user, or change a password.")
@click.argument("user", shell_complete=complete_users)
@mechanism_option
@click.option("--iterations", type=click.IntRange(4096, 16384), default=4096, help="Number of hash iterations [4096].")
@click.option("--password-env", metavar="NAME", help="Environment variable with the password.")
@click.option("--password-file", metavar="FILE", help="File with the password in its first line; - stands for stdin.")
@cluster_options
@output_of(UserAdded)
def add(
    user: str,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_env: str | None,
    password_file: str | None,
    cluster: ClusterAccess,
    output: str,
) -> None:
    from kohort.client.admin.scram_users import UserScramCredentialUpsertion

    secret = password_of(user, password_env, password_file)
    chosen = list(dict.fromkeys(mechanisms)) or list(MECHANISMS)
    with cluster.admin() as admin:
        for mechanism in chosen:  # a request may contain a user only once: send one request for each SCRAM mechanism
            upsertion = UserScramCredentialUpsertion(user, secret, mechanism, iterations)
            admin.alter_user_scram_credentials([upsertion], timeout_ms=ADMIN_MS)
    line = f"{user} has a password for {' and '.join(chosen)}"
    report_lines(output, UserAdded(user=user, mechanisms=chosen), [line])


def password_of(user: str, env: str | None, file: str | None) -> Secret:
    """Return the password from an environment variable or a file, or prompt for it. Raises UsageError, KohortError."""
    if env is not None and file is not None:
        raise click.UsageError("--password-env and --password-file exclude each other")
    if env is not None:
        if env not in os.environ:
            raise KohortError(f"--password-env {env}: this environment variable is not set")
        return Secret(os.environ[env])
    if file is not None:
        return Secret(_first_line(file))
    if not sys.stdin.isatty():
        raise click.UsageError("no terminal to ask for the password: use --password-env or --password-file")
    return Secret(click.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True))


def _first_line(file: str) -> str:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise KohortError(f"--password-file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise KohortError(f"--password-file {file}: not UTF-8") from None
    return text.split("\n", 1)[0].removesuffix("\r")


@users.command(short_help="Remove passwords of users.")
@click.argument("names", metavar="USER...", nargs=-1, required=True, shell_complete=complete_users)
@mechanism_option
@yes_option
@cluster_options
@output_of(UsersRemoved)
def remove(names: tuple[str, ...], mechanisms: tuple[str, ...], yes: bool, cluster: ClusterAccess, output: str) -> None:
    """Remove the passwords of users: they can then no longer log in. Their ACLs and quotas stay.

    \b
    Examples:
      kohort users remove alice
      kohort users remove alice --mechanism SCRAM-SHA-256 --yes
    """
    from kohort.client.admin.scram_users import UserScramCredentialDeletion

    unique = list(dict.fromkeys(names))
    removed = []
    with cluster.admin() as admin:
        found = admin.describe_user_scram_credentials(unique, timeout_ms=ADMIN_MS).check()
        confirm(f"Remove the password{'s' * (len(unique) > 1)} of {', '.join(unique)}?", yes=yes)
        for user in unique:
            for mechanism in mechanisms or [info.mechanism for info in found[user]]:
                deletion = UserScramCredentialDeletion(user, mechanism)
                admin.alter_user_scram_credentials([deletion], timeout_ms=ADMIN_MS)
                removed.append((user, mechanism))
    about = [RemovedPassword(user=user, mechanism=mechanism) for user, mechanism in removed]
    lines = [f"removed {user}'s password for {mechanism}" for user, mechanism in removed]
    report_lines(output, UsersRemoved(removed=about), lines)
