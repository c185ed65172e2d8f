"""Options of every command that connects to a cluster: ``--bootstrap``, ``--config``, ``--profile``, ``--set``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from kohort.cli.terminal.options import FILE, with_options
from kohort.errors import ConfigError, KohortError

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.aio.consuming.consumer import Consumer
    from kohort.aio.producing.producer import Producer
    from kohort.config.client_files import ClientSettings

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C")
DEFAULT_BOOTSTRAP: Final = "localhost:9092"
COMPLETION_MS: Final = 1_000
SERVERS: Final = "bootstrap.servers"
_OURS: Final = ("group.id", "enable.auto.commit", "auto.offset.reset", "allow.auto.create.topics")
"""Consumer options that the command sets itself. If a --config FILE has them, too, its values are ignored."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Client options for a cluster. ``settings`` from --set override ``file_options`` from a file."""

    file_options: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    file_name: str = ""

    @property
    def address(self) -> str:
        servers = self.settings.get(SERVERS, self.file_options[SERVERS])
        return ",".join(servers) if isinstance(servers, list) else str(servers)

    def admin(self) -> Admin:
        from kohort import Admin
        from kohort.config.client import AdminConfig
        from kohort.config.client_files import options_for

        return self._client(Admin, AdminConfig, self.file_options, options_for(AdminConfig, self.settings))

    def consumer(self, options: Mapping[str, Any]) -> Consumer:
        from kohort import Consumer
        from kohort.config.client import ConsumerConfig

        file_options = {name: value for name, value in self.file_options.items() if name not in _OURS}
        return self._client(Consumer, ConsumerConfig, file_options, {**options, **self.settings})

    def producer(self, options: Mapping[str, Any]) -> Producer:
        from kohort import Producer
        from kohort.config.client import ProducerConfig

        return self._client(Producer, ProducerConfig, self.file_options, {**options, **self.settings})

    def _client(
        self, make: Callable[[dict[str, Any]], C], config: type, given: Mapping[str, Any], options: Mapping[str, Any]
    ) -> C:
        from kohort.config.client_files import options_for
        from kohort.config.properties import as_filled
        from kohort.config.security_names import translated

        try:
            return make(as_filled({**translated(options_for(config, given)), **translated(options)}))
        except ConfigError as error:
            raise ConfigError(f"{error} ({self.file_name})" if self.file_name else str(error)) from None


def complete_profiles(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from kohort.config.client_files import profile_names

    try:
        return [name for name in profile_names(os.environ) if name.startswith(incomplete)]
    except KohortError:
        return []


def cluster_options(command: F) -> F:
    return _with_cluster(command, "--config", "--command-config")


def cluster_options_without_config(command: F) -> F:
    """Add the cluster options to a command whose --config has another meaning.

    The file with client options is then set by --command-config only.
    """
    return _with_cluster(command, "--command-config")


def _with_cluster(command: F, *config_names: str) -> F:
    @wraps(command)
    def with_cluster(*args: Any, **options: Any) -> Any:
        context = click.get_current_context()
        cluster = cluster_of(context, lambda text: click.echo(f"kohort: {text}", err=True))
        for name in ("bootstrap", "config_file", "profile", "settings"):
            options.pop(name)
        return command(*args, cluster=cluster, **options)

    return with_options(  # type: ignore[return-value]
        click.option(
            "--bootstrap", "--bootstrap-server", "bootstrap", metavar="HOST:PORT", envvar="KOHORT_BOOTSTRAP",
            help=f"Brokers of the cluster, separated by commas; also KOHORT_BOOTSTRAP [{DEFAULT_BOOTSTRAP}].",
        ),
        click.option(
            *config_names, "config_file", metavar="FILE", type=FILE, envvar="KOHORT_CONFIG",
            help="File with client options (client.properties); also KOHORT_CONFIG.",
        ),
        click.option(
            "--profile", metavar="NAME", envvar="KOHORT_PROFILE", shell_complete=complete_profiles,
            help="Name of a cluster in clusters.toml; also KOHORT_PROFILE.",
        ),
        click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="Kafka client option."),
    )(with_cluster)  # fmt: skip


def cluster_of(context: click.Context, warn: Callable[[str], object] = lambda _: None) -> ClusterAccess:
    """Return the address and the client options of the cluster that the options of a command select.

    An option on the command line overrides an environment variable. ``--bootstrap`` overrides the address in a file.
    ``--set`` overrides all of these. If ``--bootstrap`` is on the command line, KOHORT_PROFILE is ignored: the
    profile's password must not reach another cluster. Raises ConfigError for an invalid file, UsageError for
    contradicting options.
    """
    file = _file_of(context)
    for text in file.warnings if file else ():
        warn(text)
    options = dict(file.options) if file else {}
    bootstrap = context.params.get("bootstrap")
    if bootstrap and (SERVERS not in options or _is_typed(context, "bootstrap")):
        options[SERVERS] = bootstrap
    options.setdefault(SERVERS, DEFAULT_BOOTSTRAP)
    settings = pairs(context.params.get("settings") or (), "--set")
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return ClusterAccess(options, dotted, file.where if file else "")


def _file_of(context: click.Context) -> ClientSettings | None:
    config, profile = context.params.get("config_file"), context.params.get("profile")
    if config and profile:
        if _is_typed(context, "config_file") == _is_typed(context, "profile"):
            raise click.UsageError("--config and --profile (KOHORT_CONFIG and KOHORT_PROFILE) exclude each other")
        config, profile = (config, None) if _is_typed(context, "config_file") else (None, profile)
    from kohort.config.client_files import read_client_file, read_profile

    if config:
        return read_client_file(config, os.environ)
    if profile and (_is_typed(context, "profile") or not _is_typed(context, "bootstrap")):
        return read_profile(profile, os.environ)
    return None


def _is_typed(context: click.Context, name: str) -> bool:
    """Return True if the option was set on the command line, not by an environment variable."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Parse the ``KEY=VALUE`` values of a repeatable option to a dict. Raises BadParameter."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{text!r}: expected KEY=VALUE", param_hint=option)
        found[key.strip()] = value
    return found


Completion = Callable[[click.Context, click.Parameter, str], list[str]]


def _completion(names: Callable[[Admin, str], Iterable[str]]) -> Completion:
    """Return a function for shell completion that proposes names from the cluster.

    If no broker answers, the function proposes no names.
    """

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        try:
            with cluster_of(ctx).admin() as admin:
                found = names(admin, str(ctx.params.get("group_id") or ""))
                return [name for name in found if name.startswith(incomplete)]
        except (KohortError, click.ClickException):
            return []

    return complete


def _members(admin: Admin, group_id: str) -> list[str]:
    members = admin.describe_groups([group_id], timeout_ms=COMPLETION_MS)[group_id].members
    return [m.group_instance_id for m in members if m.group_instance_id] + [m.member_id for m in members]


def _committed_partitions(admin: Admin, group_id: str) -> list[str]:
    found = admin.list_group_offsets(group_id, timeout_ms=COMPLETION_MS)
    return [f"{tp.topic}:{tp.partition}" for tp in sorted(found)]


complete_topics = _completion(lambda admin, _: [t.name for t in admin.list_topics(timeout_ms=COMPLETION_MS)])
complete_groups = _completion(lambda admin, _: [g.group_id for g in admin.list_groups(timeout_ms=COMPLETION_MS)])
complete_users = _completion(lambda admin, _: admin.describe_user_scram_credentials(timeout_ms=COMPLETION_MS))
complete_members = _completion(_members)
complete_partitions = _completion(_committed_partitions)
