"""``kohort quotas``: list, set and remove quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_users, pairs
from kohort.cli.terminal.options import ADMIN_MS, confirm, with_options, yes_option
from kohort.cli.terminal.output import output_of, report_lines, report_rows
from kohort.results.cluster import QuotaRow, QuotasListed, QuotasRemoved, QuotasSet
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.client.admin.quotas import ClientQuotaEntity

F = TypeVar("F", bound=Callable[..., Any])
PARTS: Final = ("user", "client", "ip")


def entity_options(command: F) -> F:
    @wraps(command)
    def with_entity(*args: Any, **options: Any) -> Any:
        from kohort.client.admin.quotas import ClientQuotaEntity, QuotaMatch

        found: dict[str, Any] = {}
        for part in PARTS:
            name, is_default = options.pop(part), options.pop(f"{part}_default")
            if name is not None and is_default:
                raise click.UsageError(f"--{part} and --{part}-default exclude each other")
            found[part] = QuotaMatch.DEFAULT if is_default else name
        entity = ClientQuotaEntity(found["user"], found["client"], found["ip"])
        return command(*args, entity=entity, **options)

    return with_options(*_OPTIONS)(with_entity)  # type: ignore[return-value]


_OPTIONS: Final = (
    click.option("--user", metavar="NAME", shell_complete=complete_users, help="User of the quota."),
    click.option("--user-default", is_flag=True, help="Default quota, for users that have no quota."),
    click.option("--client", metavar="ID", help="Client id of the quota; with --user, only the clients of this user."),
    click.option("--client-default", is_flag=True, help="Default quota, for client ids that have no quota."),
    click.option("--ip", metavar="ADDRESS", help="Client address of the quota."),
    click.option("--ip-default", is_flag=True, help="Default quota, for addresses that have no quota."),
)


@click.group(short_help="List, set and remove quotas of users, client ids and addresses.")
def quotas() -> None:
    """List, set and remove quotas of users, client ids and addresses.

    \b
    producer_byte_rate, consumer_byte_rate   bytes per second, on each broker
    request_percentage                       percent of the time of one thread
    controller_mutation_rate                 new or deleted partitions per second
    connection_creation_rate                 connections per second; for addresses
    """


LIST_HELP = """List quotas: all, or the quotas of a user, a client id or an address.

\b
Examples:
  kohort quotas list
  kohort quotas list --user alice
  kohort quotas list --user-default --output json | jq '.quotas[].values'
"""


@quotas.command("list", help=LIST_HELP, short_help="List quotas.")
@entity_options
@cluster_options
@output_of(QuotasListed)
def list_quotas(entity: ClientQuotaEntity, cluster: ClusterAccess, output: str) -> None:
    with cluster.admin() as admin:
        found = admin.describe_client_quotas(entity, timeout_ms=ADMIN_MS)
    result = QuotasListed(quotas=[QuotaRow(entity=as_json(each), values=values) for each, values in found.items()])
    rows = [(*cells(each), key, f"{value:.12g}") for each, values in found.items() for key, value in values.items()]
    report_rows(output, result, ("USER", "CLIENT-ID", "IP", "QUOTA", "VALUE"), rows, none="no quotas")


SET_HELP = """Set quotas of a user, a client id, a user with a client id, or an address.

\b
Examples:
  kohort quotas set --user alice producer_byte_rate=1000000
  kohort quotas set --user-default --client-default request_percentage=50
  kohort quotas set --ip 10.0.0.7 connection_creation_rate=5
"""


@quotas.command("set", help=SET_HELP, short_help="Set quotas.")
@click.argument("values", metavar="QUOTA=VALUE...", nargs=-1, required=True)
@entity_options
@cluster_options
@output_of(QuotasSet)
def set_quotas(values: tuple[str, ...], entity: ClientQuotaEntity, cluster: ClusterAccess, output: str) -> None:
    check_entity(entity)
    quotas: dict[str, float] = {}
    for key, text in pairs(values, "QUOTA=VALUE").items():
        try:
            quotas[key] = float(text)
        except ValueError:
            raise click.BadParameter(f"{key}={text}: expected a number", param_hint="QUOTA=VALUE") from None
    with cluster.admin() as admin:
        admin.alter_client_quotas({entity: quotas}, timeout_ms=ADMIN_MS)
    lines = [f"{entity}: {key}={value:.12g}" for key, value in quotas.items()]
    report_lines(output, QuotasSet(entity=as_json(entity), values=quotas), lines)


REMOVE_HELP = """Remove the given quotas, or all quotas, of a user, a client id, a user with a client id, or an address.

\b
Examples:
  kohort quotas remove --user alice
  kohort quotas remove --user-default producer_byte_rate --yes
"""


@quotas.command(help=REMOVE_HELP, short_help="Remove quotas.")
@click.argument("keys", metavar="[QUOTA]...", nargs=-1)
@entity_options
@yes_option
@cluster_options
@output_of(QuotasRemoved)
def remove(keys: tuple[str, ...], entity: ClientQuotaEntity, yes: bool, cluster: ClusterAccess, output: str) -> None:
    check_entity(entity)
    with cluster.admin() as admin:
        present = admin.describe_client_quotas(entity, strict=True, timeout_ms=ADMIN_MS).get(entity, {})
        removed = [key for key in present if not keys or key in keys]
        if not removed:
            name = f" {', '.join(keys)}" if keys else ""
            raise NothingThere(f"{entity} has no quota{name} (kohort quotas list shows all)")
        confirm(f"Remove {', '.join(removed)} of {entity}?", yes=yes)
        admin.alter_client_quotas({entity: dict.fromkeys(removed)}, timeout_ms=ADMIN_MS)
    lines = [f"{entity}: removed {key}" for key in removed]
    report_lines(output, QuotasRemoved(entity=as_json(entity), removed=removed), lines)


def check_entity(entity: ClientQuotaEntity) -> None:
    if entity.user is None and entity.client_id is None and entity.ip is None:
        raise click.UsageError("expected --user, --client or --ip, or an option for a default such as --user-default")
    if entity.ip is not None and (entity.user is not None or entity.client_id is not None):
        raise click.UsageError("--ip cannot be combined with --user or --client")


def cells(entity: ClientQuotaEntity) -> tuple[str | None, ...]:
    parts = (entity.user, entity.client_id, entity.ip)
    return tuple(part if part is None or isinstance(part, str) else "<default>" for part in parts)


def as_json(entity: ClientQuotaEntity) -> dict[str, str | None]:
    """Return a quota entity as a dict of entity type (user, client-id, ip) to name.

    None stands for the type's default.
    """
    parts = {"user": entity.user, "client-id": entity.client_id, "ip": entity.ip}
    return {kind: name if isinstance(name, str) else None for kind, name in parts.items() if name is not None}
