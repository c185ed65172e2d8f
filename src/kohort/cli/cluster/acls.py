"""``kohort acls``: list, add and remove ACLs. The options have the names of Kafka's own tool."""

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


@dataclass(frozen=True, slots=True)
class AclOptions:
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
        return [name for resource_type, name in self.resources if resource_type == kind]

    def rights(self) -> list[tuple[Resource, str]]:
        if not (self.produces or self.consumes):
            if self.idempotent:
                raise click.UsageError("--idempotent needs --producer")
            if not self.resources:
                raise click.UsageError("expected a resource: --topic, --group, --cluster or --transactional-id")
            return [(resource, operation) for resource in self.resources for operation in self.operations or ("all",)]
        if self.operations:
            raise click.UsageError("--operation cannot be combined with --producer or --consumer")
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
        from kohort.client.admin.acls import AclBinding

        if not self.allowed and not self.denied:
            raise click.UsageError("expected a principal: --allow-principal User:NAME, or --deny-principal")
        rights = self.rights()
        sides = [("allow", self.allowed, self.allow_hosts), ("deny", self.denied, self.deny_hosts)]
        return [
            AclBinding(kind, name, principal, operation, permission, host, self._pattern_of(kind))
            for permission, principals, hosts in sides
            for principal in principals
            for host in hosts or (ANYONE,)
            for (kind, name), operation in rights
        ]

    def filters(self) -> list[AclBindingFilter]:
        """Return filters with the values of the options. A filter matches any value of an option that is not set."""
        from kohort.client.admin.acls import AclBindingFilter

        if self.produces or self.consumes:
            return [acl.filter for acl in self.bindings()]
        sides: list[tuple[str, tuple[str | None, ...], tuple[str, ...]]] = []
        sides += [("allow", self.allowed, self.allow_hosts)] if self.allowed else []
        sides += [("deny", self.denied, self.deny_hosts)] if self.denied else []
        return [
            AclBindingFilter(kind, name, principal, operation, permission, host, self._pattern_of(kind))
            for permission, principals, hosts in sides or [("any", (None,), self.allow_hosts)]
            for principal in principals
            for host in hosts or (None,)
            for kind, name in self.resources
            for operation in self.operations or ("any",)
        ]

    def _pattern_of(self, kind: str) -> str:
        return "literal" if kind == "cluster" or self.pattern is None else self.pattern


def acl_options(command: F) -> F:
    @wraps(command)
    def with_acl_options(*args: Any, **options: Any) -> Any:
        for principal in (*options["allowed"], *options["denied"]):
            check_principal(principal)
        resources = tuple(_resources(options))
        names = [field.name for field in fields(AclOptions) if field.name != "resources"]
        described = AclOptions(resources=resources, **{name: options.pop(name) for name in names})
        return command(*args, described=described, **options)

    return with_options(*_RESOURCES, *_OPTIONS)(with_acl_options)  # type: ignore[return-value]


_RESOURCES: Final = (
    click.option(
        "--topic", "topics", metavar="NAME", multiple=True, shell_complete=complete_topics,
        help="Topic name. Like all resource options it may be repeated.",
    ),
    click.option("--group", "groups", metavar="NAME", multiple=True, shell_complete=complete_groups, help="Group id."),
    click.option("--cluster", "on_cluster", is_flag=True, help="Select the cluster as resource."),
    click.option("--transactional-id", "transactional_ids", metavar="NAME", multiple=True, help="Transactional id."),
)  # fmt: skip
_OPTIONS: Final = (
    click.option(
        "--resource-pattern-type", "pattern", type=click.Choice(["literal", "prefixed"]),
        help="Kind of the resource names: whole names [literal], or prefixes.",
    ),
    click.option("--allow-principal", "allowed", metavar="TYPE:NAME", multiple=True, help="Principal to allow."),
    click.option("--deny-principal", "denied", metavar="TYPE:NAME", multiple=True, help="Principal to deny."),
    click.option("--allow-host", "allow_hosts", metavar="ADDRESS", multiple=True, help="Client host to allow [all]."),
    click.option("--deny-host", "deny_hosts", metavar="ADDRESS", multiple=True, help="Client host to deny [all]."),
    click.option("--operation", "operations", metavar="NAME", multiple=True, help="Operation: Read, Write, ... [All]."),
    click.option("--producer", "produces", is_flag=True, help="All operations of a producer on --topic."),
    click.option("--consumer", "consumes", is_flag=True, help="All operations of a consumer on --topic and --group."),
    click.option("--idempotent", is_flag=True, help="With --producer: also IdempotentWrite, for brokers before 3.0."),
)  # fmt: skip


def _resources(options: dict[str, Any]) -> list[Resource]:
    return [
        *(("topic", name) for name in options.pop("topics")),
        *(("group", name) for name in options.pop("groups")),
        *[("cluster", CLUSTER)] * options.pop("on_cluster"),
        *(("transactional_id", name) for name in options.pop("transactional_ids")),
    ]


def check_principal(text: str) -> None:
    if not text.partition(":")[1]:
        raise click.UsageError(f"{text!r} is not a principal: expected TYPE:NAME, such as User:{text}")


@contextmanager
def authorizer_needed(cluster: ClusterAccess) -> Iterator[None]:
    """Raise an error that explains how to set an authorizer, if the cluster returns SECURITY_DISABLED."""
    try:
        yield
    except ApiError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:
            raise
        raise KohortError(
            f"{cluster.address} has no authorizer, so it has no ACLs and every client has all rights. "
            f"Set authorizer.class.name={AUTHORIZER}, and super.users=User:NAME for the user that adds the first "
            "ACLs (kohort serve --set NAME=VALUE)"
        ) from None


@click.group(short_help="List, add and remove ACLs.")
def acls() -> None:
    """List, add and remove ACLs of brokers with an authorizer."""


LIST_HELP = """List ACLs: all, or the ACLs of a resource or a principal.

The list includes the ACLs for prefixes of a resource name, and for *. --resource-pattern-type selects one pattern type.

\b
Examples:
  kohort acls list --topic orders
  kohort acls list --principal User:alice --output json | jq .acls
"""


@acls.command("list", help=LIST_HELP, short_help="List ACLs.")
@with_options(*_RESOURCES)
@click.option(
    "--principal",
    "principals",
    metavar="TYPE:NAME",
    multiple=True,
    help="Show only ACLs of this principal; repeatable.",
)
@click.option(
    "--resource-pattern-type",
    "pattern",
    type=click.Choice(["any", "match", "literal", "prefixed"]),
    help="Show only ACLs of this pattern type [match].",
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
        AclBindingFilter(resource_type, name, principal, pattern_type=kind)
        for resource_type, name in named or [("any", None)]
        for principal in principals or (None,)
    ]
    with authorizer_needed(cluster), cluster.admin() as admin:
        found = [acl for each in filters for acl in admin.describe_acls(each, timeout_ms=ADMIN_MS)]
    report(output, AclsListed(acls=[row_of(acl) for acl in dict.fromkeys(found)]), COLUMNS, none="no ACLs")


ADD_HELP = """Add an ACL for each principal, each operation and each resource.

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
def add(described: AclOptions, cluster: ClusterAccess, output: str) -> None:
    bindings = described.bindings()
    with authorizer_needed(cluster), cluster.admin() as admin:
        results = admin.create_acls(bindings, check=False, timeout_ms=ADMIN_MS)
        done = [acl for acl in results if acl not in results.errors]
        report_lines(output, AclsAdded(added=[row_of(acl) for acl in done]), [f"added: {acl}" for acl in done])
        results.check()


REMOVE_HELP = """Remove the ACLs of resources: all of them, or the ACLs of the given principals and operations.

The command lists the ACLs and asks for confirmation. ACLs of prefixes need --resource-pattern-type prefixed.

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
def remove(described: AclOptions, yes: bool, cluster: ClusterAccess, output: str) -> None:
    described.rights()  # check the options before connecting; raises UsageError
    filters = described.filters()
    with authorizer_needed(cluster), cluster.admin() as admin:
        found = [acl for each in filters for acl in admin.describe_acls(each, timeout_ms=ADMIN_MS)]
        matching = list(dict.fromkeys(found))
        if not matching:
            raise NothingThere("no ACL matches (kohort acls list shows all)")
        if not yes:
            for acl in matching:
                click.echo(str(acl), err=True)
        confirm(f"Remove {len(matching)} ACL{'s' * (len(matching) != 1)}?", yes=yes)
        results = admin.delete_acls(matching, check=False, timeout_ms=ADMIN_MS)
        removed = [acl for each in results if each not in results.errors for acl in results[each]]
        result = AclsRemoved(removed=[row_of(acl) for acl in removed])
        report_lines(output, result, [f"removed: {acl}" for acl in removed])
        results.check()


def row_of(acl: AclBinding) -> AclRow:
    return AclRow(**{field: getattr(acl, field) for field in COLUMNS.values()})
