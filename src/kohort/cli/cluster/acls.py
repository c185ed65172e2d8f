"""``kohort acls``: who may do what, in the words of Kafka's own tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups, complete_topics
from kohort.cli.terminal.options import ADMIN_MS, confirm, with_options, yes_option
from kohort.cli.terminal.output import output_of, report, report_lines
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.results.cluster import AclRow, AclsAdded, AclsListed, AclsRemoved
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.client.admin.acls import AclBinding, AclBindingFilter

F = TypeVar("F", bound=Callable[..., Any])
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CLUSTER: Final = "kafka-cluster"
ANYONE: Final = "*"
COLUMNS: Final = {
    "PRINCIPAL": "principal",
    "PERMISSION": "permission",
    "OPERATION": "operation",
    "RESOURCE": "resource_type",
    "NAME": "resource_name",
    "PATTERN": "pattern_type",
    "HOST": "host",
}
PRODUCES: Final = ("write", "describe", "create")
CONSUMES: Final = ("read", "describe")

Resource = tuple[str, str]
"""A type, and a name."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """ACLs or parts of ACLs that a command names."""

    resources: tuple[Resource, ...]
    pattern: str | None
    allowed: tuple[str, ...]
    denied: tuple[str, ...]
    allow_hosts: tuple[str, ...]
    deny_hosts: tuple[str, ...]
    operations: tuple[str, ...]
    produces: bool
    consumes: bool
    idempotent: bool

    def names(self, kind: str) -> list[str]:
        return [name for of, name in self.resources if of == kind]

    def rights(self) -> list[tuple[Resource, str]]:
        """Return pairs of resource and operation. Raises UsageError."""
        if not (self.produces or self.consumes):
            if self.idempotent:
                raise click.UsageError("--idempotent goes with --producer")
            if not self.resources:
                raise click.UsageError("say of what: --topic, --group, --cluster, --transactional-id")
            return [(resource, operation) for resource in self.resources for operation in self.operations or ("all",)]
        if self.operations:
            raise click.UsageError("--producer and --consumer say which operations: leave --operation out")
        if not self.names("topic"):
            raise click.UsageError("--producer and --consumer need a --topic")
        if self.consumes and not self.names("group"):
            raise click.UsageError("--consumer needs a --group")
        found: list[tuple[Resource, str]] = []
        if self.produces:
            found += [(("topic", name), operation) for name in self.names("topic") for operation in PRODUCES]
            ids = self.names("transactional_id")
            found += [(("transactional_id", name), operation) for name in ids for operation in PRODUCES[:2]]
            found += [(("cluster", CLUSTER), "idempotent_write")] * self.idempotent
        if self.consumes:
            found += [(("topic", name), operation) for name in self.names("topic") for operation in CONSUMES]
            found += [(("group", name), "read") for name in self.names("group")]
        return list(dict.fromkeys(found))

    def bindings(self) -> list[AclBinding]:
        """Return the named ACLs. Raises UsageError."""
        from kohort.client.admin.acls import AclBinding

        if not self.allowed and not self.denied:
            raise click.UsageError("say for whom: --allow-principal User:NAME, or --deny-principal")
        rights = self.rights()
        sides = [("allow", self.allowed, self.allow_hosts), ("deny", self.denied, self.deny_hosts)]
        return [
            AclBinding(kind, name, who, operation, permission, host, self._pattern_of(kind))
            for permission, principals, hosts in sides
            for who in principals
            for host in hosts or (ANYONE,)
            for (kind, name), operation in rights
        ]

    def filters(self) -> list[AclBindingFilter]:
        """Return filters of the named ACLs; a part that is missing matches anything."""
        from kohort.client.admin.acls import AclBindingFilter

        if self.produces or self.consumes:
            return [acl.filter for acl in self.bindings()]
        sides: list[tuple[str, tuple[str | None, ...], tuple[str, ...]]] = []
        sides += [("allow", self.allowed, self.allow_hosts)] if self.allowed else []
        sides += [("deny", self.denied, self.deny_hosts)] if self.denied else []
        return [
            AclBindingFilter(kind, name, who, operation, permission, host, self._pattern_of(kind))
            for permission, principals, hosts in sides or [("any", (None,), self.allow_hosts)]
            for who in principals
            for host in hosts or (None,)
            for kind, name in self.resources
            for operation in self.operations or ("any",)
        ]

    def _pattern_of(self, kind: str) -> str:
        return "literal" if kind == "cluster" or self.pattern is None else self.pattern


def acl_options(command: F) -> F:
    """Give a command the options of ACLs, as the argument ``chosen``."""

    @wraps(command)
    def with_chosen(*args: Any, **options: Any) -> Any:
        return command(*args, chosen=_chosen(options), **options)

    return with_options(*_RESOURCES, *_OPTIONS)(with_chosen)  # type: ignore[return-value]


_RESOURCES: Final = (
    click.option("--topic", "topics", metavar="NAME", multiple=True, shell_complete=complete_topics, help="Topics."),
    click.option("--group", "groups", metavar="NAME", multiple=True, shell_complete=complete_groups, help="Groups."),
    click.option("--cluster", "on_cluster", is_flag=True, help="The cluster itself."),
    click.option("--transactional-id", "transactional_ids", metavar="NAME", multiple=True, help="Transactional ids."),
)
_OPTIONS: Final = (
    click.option(
        "--resource-pattern-type",
        "pattern",
        type=click.Choice(["literal", "prefixed"]),
        help="Whole names [literal], or the beginnings of names.",
    ),
    click.option(
        "--allow-principal", "allowed", metavar="TYPE:NAME", multiple=True, help="Principals to allow, as User:alice."
    ),
    click.option("--deny-principal", "denied", metavar="TYPE:NAME", multiple=True, help="Denied, as User:alice."),
    click.option("--allow-host", "allow_hosts", metavar="ADDRESS", multiple=True, help="Hosts to allow [all]."),
    click.option("--deny-host", "deny_hosts", metavar="ADDRESS", multiple=True, help="Hosts to deny [all]."),
    click.option("--operation", "operations", metavar="NAME", multiple=True, help="Read, Write, Describe, ... [All]."),
    click.option("--producer", "produces", is_flag=True, help="All that a producer to --topic needs."),
    click.option("--consumer", "consumes", is_flag=True, help="All that a consumer of --topic in --group needs."),
    click.option("--idempotent", is_flag=True, help="With --producer: IdempotentWrite, for brokers before 3.0."),
)


def _chosen(options: dict[str, Any]) -> Chosen:
    for principal in (*options["allowed"], *options["denied"]):
        check_principal(principal)
    resources = _resources(options)
    names = [field.name for field in fields(Chosen) if field.name != "resources"]
    return Chosen(resources=tuple(resources), **{name: options.pop(name) for name in names})


def _resources(options: dict[str, Any]) -> list[Resource]:
    return [
        *(("topic", name) for name in options.pop("topics")),
        *(("group", name) for name in options.pop("groups")),
        *[("cluster", CLUSTER)] * options.pop("on_cluster"),
        *(("transactional_id", name) for name in options.pop("transactional_ids")),
    ]


def check_principal(text: str) -> None:
    if not text.partition(":")[1]:
        raise click.UsageError(f"{text!r} is no principal: expected TYPE:NAME, such as User:{text}")


@contextmanager
def authorizer_needed(cluster: ClusterAccess) -> Iterator[None]:
    """Tell how a broker gets an authorizer, if it has none."""
    try:
        yield
    except ApiError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:
            raise
        raise KohortError(
            f"{cluster.address} has no authorizer: there are no ACLs, and everyone who reaches it may do everything. "
            f"Its brokers get one by authorizer.class.name={AUTHORIZER}, with super.users=User:NAME for who may "
            "write the first ACLs (kohort serve --set NAME=VALUE)"
        ) from None


@click.group(short_help="List, add and remove ACLs.")
def acls() -> None:
    """List, add and remove ACLs of brokers with an authorizer."""


LIST_HELP = """List ACLs: all, or those that match a resource or a principal.

A name matches ACLs of the name, of its prefixes, and of *. --resource-pattern-type lists only one kind of pattern.

\b
Examples:
  kohort acls list --topic orders
  kohort acls list --principal User:alice --output json | jq .acls
"""


@acls.command("list", help=LIST_HELP, short_help="List ACLs.")
@with_options(*_RESOURCES)
@click.option("--principal", "principals", metavar="TYPE:NAME", multiple=True, help="Of these principals.")
@click.option(
    "--resource-pattern-type", "pattern", type=click.Choice(["any", "match", "literal", "prefixed"]), help="[match]"
)
@cluster_options
@output_of(AclsListed)
def list_acls(
    principals: tuple[str, ...], pattern: str | None, cluster: ClusterAccess, output: str, **resources: Any
) -> None:
    from kohort.client.admin.acls import AclBindingFilter

    for principal in principals:
        check_principal(principal)
    named: list[tuple[str, str | None]] = [*_resources(resources)]
    kind = pattern or ("match" if named else "any")
    filters = [
        AclBindingFilter(of, name, principal, pattern_type=kind)
        for of, name in named or [("any", None)]
        for principal in principals or (None,)
    ]
    with authorizer_needed(cluster), cluster.admin() as admin:
        found = [acl for each in filters for acl in admin.describe_acls(each, timeout_ms=ADMIN_MS)]
    report(output, AclsListed(acls=[row_of(acl) for acl in dict.fromkeys(found)]), COLUMNS, none="no ACLs")


ADD_HELP = """Add ACLs: each principal gets each operation on each resource.

\b
Examples:
  kohort acls add --allow-principal User:alice --producer --topic orders
  kohort acls add --allow-principal User:bob --consumer --topic t --group g
  kohort acls add --allow-principal User:etl --operation Read \\
      --topic etl- --resource-pattern-type prefixed
  kohort acls add --deny-principal 'User:*' --deny-host 10.0.0.7 --topic t
"""


@acls.command(help=ADD_HELP, short_help="Add ACLs.")
@acl_options
@cluster_options
@output_of(AclsAdded)
def add(chosen: Chosen, cluster: ClusterAccess, output: str) -> None:
    bindings = chosen.bindings()
    with authorizer_needed(cluster), cluster.admin() as admin:
        results = admin.create_acls(bindings, check=False, timeout_ms=ADMIN_MS)
        done = [acl for acl in results if acl not in results.errors]
        report_lines(output, AclsAdded(added=[row_of(acl) for acl in done]), [f"added: {acl}" for acl in done])
        results.check()


REMOVE_HELP = """Remove ACLs of resources: those of the named principals and operations, or all.

The command shows the ACLs and asks. ACLs of prefixes need --resource-pattern-type prefixed.

\b
Examples:
  kohort acls remove --topic orders
  kohort acls remove --allow-principal User:bob --consumer --topic t --group g
"""


@acls.command(help=REMOVE_HELP, short_help="Remove ACLs.")
@acl_options
@yes_option
@cluster_options
@output_of(AclsRemoved)
def remove(chosen: Chosen, yes: bool, cluster: ClusterAccess, output: str) -> None:
    chosen.rights()  # says what is missing
    filters = chosen.filters()
    with authorizer_needed(cluster), cluster.admin() as admin:
        found = [acl for each in filters for acl in admin.describe_acls(each, timeout_ms=ADMIN_MS)]
        going = list(dict.fromkeys(found))
        if not going:
            raise NothingThere("there are no such ACLs (kohort acls list shows all)")
        if not yes:
            for acl in going:
                click.echo(str(acl), err=True)
        confirm(f"Remove {len(going)} ACL{'s' * (len(going) != 1)}?", yes=yes)
        results = admin.delete_acls(going, check=False, timeout_ms=ADMIN_MS)
        gone = [acl for each in results if each not in results.errors for acl in results[each]]
        report_lines(output, AclsRemoved(removed=[row_of(acl) for acl in gone]), [f"removed: {acl}" for acl in gone])
        results.check()


def row_of(acl: AclBinding) -> AclRow:
    return AclRow(**{field: getattr(acl, field) for field in COLUMNS.values()})
