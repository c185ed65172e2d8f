"""Admin clients: ``AsyncAdmin`` for asyncio, and the blocking ``Admin``, which wraps it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

from kohort.aio.admin_calls import PositionCalls, SecurityCalls, Topics, TransactionCalls, names_of, new_topics
from kohort.aio.driver import Driver
from kohort.aio.io_thread import io_thread
from kohort.aio.other_names import OF_ADMINS, OtherNames
from kohort.aio.system import SystemClock, system_rng
from kohort.aio.tls.contexts import tls_of
from kohort.client.admin import groups as group_operations
from kohort.client.admin import nodes as node_operations
from kohort.client.admin import offsets as offset_operations
from kohort.client.admin import topics as topic_operations
from kohort.client.admin.model import (
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    ListedOffset,
    LogDirDescription,
    Reassignment,
    TopicDescription,
    TopicListing,
)
from kohort.client.admin.operations import AdminMachine, Operation, Results, explain_denials
from kohort.client.metrics.names import MetricsSnapshot
from kohort.client.metrics_report import admin_metrics
from kohort.client.requests.engine import Engine
from kohort.client.requests.metadata import Metadata
from kohort.client.user_input import checked_ms
from kohort.config.client import AdminConfig
from kohort.config.client_options import client_config
from kohort.errors import UsageError
from kohort.model import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from kohort.aio.option_types import AdminOptions

P = ParamSpec("P")
R = TypeVar("R")


class AsyncAdmin(SecurityCalls, PositionCalls, TransactionCalls, OtherNames):
    """Admin client for asyncio, usable in ``async with``::

        async with AsyncAdmin(bootstrap_servers="localhost:9092") as admin:
            await admin.create_topics({"orders": 3})

    Options are those of Kafka's admin client. Use the client in one event loop only. Every call raises ApiTimeout after
    ``timeout_ms`` milliseconds (default: ``default.api.timeout.ms``), ConnectionFailed if no broker is reachable,
    ApiError if a broker refuses the whole request, and UsageError if the client is closed.

    Calls that change several items return ``Results``, with a value or an error for each item. They process all items,
    even if brokers refuse some. With ``check=True`` (default) such a call then raises the error of the first refused
    item; with ``check=False``, ``results.errors`` has the errors of all refused items. Calls that change nothing raise
    an item's error when ``results[item]`` is read.
    """

    other_names = OF_ADMINS

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Unpack[AdminOptions]) -> None:
        self.config = client_config(AdminConfig, config, options)
        rng = system_rng()
        self._metadata = Metadata(self.config, rng, allow_auto_create=False)
        self._machine = AdminMachine(self.config, self._metadata, rng)
        self._engine = Engine(self.config, [self._machine], self._metadata, rng)
        self._tls = tls_of(self.config)
        self._driver: Driver | None = None
        self._clock = SystemClock()
        self._closed = False

    async def create_topics(
        self, topics: Topics, *, validate_only: bool = False, check: bool = True, timeout_ms: int | None = None
    ) -> Results[str, CreatedTopic]:
        """Create topics: ``{"orders": 3}``, names (with the broker's default counts), or ``NewTopic`` values (KIP-4).

        With ``validate_only`` the broker checks the request and creates nothing. Returns a mapping of names to created
        topics. Raises ApiError for a refused topic, such as TOPIC_ALREADY_EXISTS, and UsageError for a bare string.
        """
        operation = topic_operations.create_topics(
            self._metadata, new_topics(topics), validate_only=validate_only, timeout_ms=self._limit(timeout_ms)
        )
        return await self._change("create_topics", operation, timeout_ms, check)

    async def delete_topics(
        self, names: Iterable[str], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[str, None]:
        """Delete topics and their records (KIP-4).

        Raises ApiError for a refused topic, such as UNKNOWN_TOPIC_OR_PARTITION, and UsageError for a bare string.
        """
        operation = topic_operations.delete_topics(self._metadata, names_of(names), timeout_ms=self._limit(timeout_ms))
        return await self._change("delete_topics", operation, timeout_ms, check)

    async def create_partitions(
        self,
        totals: Mapping[str, int],
        *,
        validate_only: bool = False,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[str, None]:
        """Add partitions to topics; ``totals`` maps each topic to its new number of partitions (KIP-195).

        With ``validate_only`` the broker checks the request and changes nothing. Raises ApiError for a refused topic,
        such as INVALID_PARTITIONS.
        """
        operation = topic_operations.create_partitions(
            self._metadata, totals, validate_only=validate_only, timeout_ms=self._limit(timeout_ms)
        )
        return await self._change("create_partitions", operation, timeout_ms, check)

    async def list_topics(self, *, internal: bool = False, timeout_ms: int | None = None) -> list[TopicListing]:
        """Return all topics, sorted by name; with ``internal=True`` also the internal topics."""
        operation = topic_operations.list_topics(self._metadata, internal=internal)
        return await self._run("list_topics", operation, timeout_ms)

    async def describe_topics(
        self, names: Iterable[str], *, timeout_ms: int | None = None
    ) -> Results[str, TopicDescription]:
        """Describe topics and their partitions. Returns a mapping of topic names to descriptions.

        ``results[name]`` raises ApiError (UNKNOWN_TOPIC_OR_PARTITION) for a missing topic. Raises UsageError for a bare
        string.
        """
        operation = topic_operations.describe_topics(self._metadata, names_of(names))
        return await self._run("describe_topics", operation, timeout_ms)

    async def describe_cluster(self, *, timeout_ms: int | None = None) -> ClusterDescription:
        """Return the cluster's id, controller and brokers."""
        return await self._run("describe_cluster", topic_operations.describe_cluster(self._metadata), timeout_ms)

    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, names: Iterable[str] | None = None, timeout_ms: int | None = None
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """Return the options of topics or brokers: all options, or only those in ``names`` (KIP-133)."""
        operation = topic_operations.describe_configs(self._metadata, list(resources), names)
        return await self._run("describe_configs", operation, timeout_ms)

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[ConfigResource, None]:
        """Set options of topics or brokers (KIP-339). None resets an option to its default.

        Options that ``changes`` omits remain unchanged. Raises ApiError for a refused resource, such as INVALID_CONFIG,
        and UsageError for a kind of resource that has no options.
        """
        operation = topic_operations.alter_configs(self._metadata, changes)
        return await self._change("alter_configs", operation, timeout_ms, check)

    async def list_config_resources(
        self, kinds: Iterable[str] = (), *, timeout_ms: int | None = None
    ) -> list[ConfigResource]:
        """Return the resources that have options. ``kinds`` selects kinds, such as ``group`` (KIP-1142)."""
        return await self._run("list_config_resources", topic_operations.list_config_resources(kinds), timeout_ms)

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        unclean: bool = False,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, None]:
        """Make the preferred (first) replica of each partition its leader (KIP-460).

        ``partitions=None`` means all partitions. With ``unclean=True`` any replica becomes the leader of a partition
        without a leader, and records may be lost. Raises ApiError for a refused partition, such as ELECTION_NOT_NEEDED.
        """
        limit = self._limit(timeout_ms)
        operation = node_operations.elect_leaders(self._metadata, partitions, unclean=unclean, timeout_ms=limit)
        return await self._change("elect_leaders", operation, timeout_ms, check)

    async def reassign_partitions(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, None]:
        """Start the reassignment of partitions: move their replicas to other nodes (KIP-455).

        ``targets`` maps each partition to the node ids of its new replicas, the preferred leader first. None cancels
        the partition's reassignment in flight. The call does not wait for the end of a reassignment (see
        ``list_reassignments``). Raises ApiError for a refused partition.
        """
        operation = node_operations.reassign_partitions(self._metadata, targets, timeout_ms=self._limit(timeout_ms))
        return await self._change("reassign_partitions", operation, timeout_ms, check)

    async def list_reassignments(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, Reassignment]:
        """Return the reassignments in flight as a mapping of partitions to reassignments (KIP-455)."""
        operation = node_operations.list_reassignments(self._metadata, timeout_ms=self._limit(timeout_ms))
        return await self._run("list_reassignments", operation, timeout_ms)

    async def describe_log_dirs(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> Results[int, list[LogDirDescription]]:
        """Return the log directories of each broker, with the size of each partition in bytes (KIP-113).

        ``partitions=None`` means all partitions. ``results[node_id]`` raises the error of a broker, such as ApiError
        (CLUSTER_AUTHORIZATION_FAILED) without DESCRIBE on the cluster.
        """
        operation = node_operations.describe_log_dirs(self._metadata, partitions)
        return await self._run("describe_log_dirs", operation, timeout_ms)

    async def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = (), timeout_ms: int | None = None
    ) -> list[GroupListing]:
        """Return all groups, or only groups in these ``states`` (KIP-518) and of these ``types``.

        Examples: ``states=["Stable"]``, ``types=["classic"]``.
        """
        operation = group_operations.list_groups(self._metadata, states=states, types=types)
        return await self._run("list_groups", operation, timeout_ms)

    async def list_groups_by_broker(self, *, timeout_ms: int | None = None) -> Results[int, list[GroupListing]]:
        """Return the groups that each broker coordinates, as a mapping of node ids to groups.

        ``results[node_id]`` raises the error of a broker that failed.
        """
        return await self._run("list_groups", group_operations.list_groups_by_broker(self._metadata), timeout_ms)

    async def describe_groups(
        self, groups: Iterable[str], *, timeout_ms: int | None = None
    ) -> Results[str, GroupDescription]:
        """Describe groups and their members. Returns a mapping of group ids to descriptions (KIP-222).

        Descriptions of KIP-848 groups have epochs and target assignments.

        ``results[group]`` raises ApiError (GROUP_ID_NOT_FOUND) for a missing group. Raises UsageError for a bare
        string.
        """
        operation = group_operations.describe_groups(self._metadata, names_of(groups))
        return await self._run("describe_groups", operation, timeout_ms)

    async def delete_groups(
        self, groups: Iterable[str], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[str, None]:
        """Delete groups that have no members, with their committed offsets (KIP-229).

        Raises ApiError for a refused group, such as NON_EMPTY_GROUP, and UsageError for a bare string.
        """
        operation = group_operations.delete_groups(self._metadata, names_of(groups))
        return await self._change("delete_groups", operation, timeout_ms, check)

    async def list_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> Results[TopicPartition, OffsetAndMetadata | None]:
        """Return a group's committed offset for each partition (KIP-396); None for a partition without a commit.

        ``partitions=None`` means all partitions for which the group has committed an offset.
        """
        operation = group_operations.list_group_offsets(self._metadata, group, partitions)
        return await self._run("list_group_offsets", operation, timeout_ms, group)

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, None]:
        """Commit offsets for a group without members; later members start at these offsets (KIP-396).

        An int is an offset without metadata. Raises ApiError for a refused partition, such as UNKNOWN_MEMBER_ID
        while the group has members.
        """
        wanted = {tp: at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at) for tp, at in offsets.items()}
        operation = group_operations.alter_group_offsets(self._metadata, group, wanted)
        return await self._change("alter_group_offsets", operation, timeout_ms, check, group)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[TopicPartition, None]:
        """Delete a group's committed offsets in topics to which the group is not subscribed (KIP-496).

        Raises ApiError for a refused partition, such as GROUP_SUBSCRIBED_TO_TOPIC.
        """
        operation = group_operations.delete_group_offsets(self._metadata, group, list(partitions))
        return await self._change("delete_group_offsets", operation, timeout_ms, check, group)

    async def remove_group_members(
        self,
        group: str,
        members: Iterable[str] = (),
        *,
        instance_ids: Iterable[str] = (),
        reason: str = "",
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[str, None]:
        """Remove members from a group (KIP-345).

        ``members`` are member ids, ``instance_ids`` are instance ids of static members. The group rebalances; a removed
        member that still runs joins again. The broker logs ``reason`` (KIP-800). Raises ApiError for an unknown member
        (UNKNOWN_MEMBER_ID), and UsageError if no member is given.
        """
        operation = group_operations.remove_group_members(
            self._metadata, group, names_of(members), names_of(instance_ids), reason
        )
        return await self._change("remove_group_members", operation, timeout_ms, check, group)

    async def list_offsets(
        self,
        places: Mapping[TopicPartition, int | str],
        *,
        isolation_level: str = "read_uncommitted",
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, ListedOffset]:
        """Look up an offset in each partition (KIP-396).

        ``places`` maps each partition to ``"earliest"``, ``"latest"``, ``"max_timestamp"`` or a timestamp in
        milliseconds since 1970. A timestamp means the first record with this timestamp or a later one.

        With ``isolation_level="read_committed"`` the latest offset is the last stable offset. ``results[partition]``
        raises ApiError for a missing partition. Raises UsageError for another string in ``places``.
        """
        operation = offset_operations.list_offsets(self._metadata, places, isolation_level=isolation_level)
        return await self._run("list_offsets", operation, timeout_ms)

    async def delete_records(
        self, before: Mapping[TopicPartition, int | str], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[TopicPartition, int]:
        """Delete the records before an offset in each partition (KIP-107).

        ``before`` maps each partition to its offset; ``"latest"`` deletes all records. Returns the new log start
        offset of each partition. Raises ApiError for a refused partition, such as OFFSET_OUT_OF_RANGE, and UsageError
        for an invalid offset.
        """
        operation = offset_operations.delete_records(self._metadata, before, timeout_ms=self._limit(timeout_ms))
        return await self._change("delete_records", operation, timeout_ms, check)

    def metrics(self) -> MetricsSnapshot:
        """Return the metrics of this client, under Kafka's names (docs/guides/client-metrics.md)."""
        return admin_metrics(self._engine, self._clock.now_ms())

    async def close(self) -> None:
        """Close the connections. Calls in flight raise UsageError. A second ``close()`` has no effect."""
        if not self._closed:
            self._closed = True
            if self._driver is not None:
                await self._driver.close()

    async def __aenter__(self) -> AsyncAdmin:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _limit(self, timeout_ms: int | None) -> int:
        return self.config.default_api_timeout_ms if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)

    async def _run(self, name: str, operation: Operation[R], timeout_ms: int | None, about: str = "") -> R:
        if self._closed:
            raise UsageError("the admin client is closed")
        if self._driver is None:
            self._driver = Driver(self._engine, tls=self._tls, clock=self._clock)
        explained = explain_denials(self.config, name, about, operation)
        call = f"{name} of {about!r}" if about else name
        promise = self._machine.start(call, explained, self._limit(timeout_ms), self._driver.clock.now_ms())
        await self._driver.until(lambda: True if promise.done else None)
        if not promise.done:
            raise UsageError("the admin client was closed during the call")
        return promise.result()


def _blocking(call: Callable[Concatenate[AsyncAdmin, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Admin, P], R]:
    """Convert a method of ``AsyncAdmin`` to a blocking method of ``Admin``, with the same signature and docstring."""

    @wraps(call)
    def wait(admin: Admin, /, *args: P.args, **options: P.kwargs) -> R:
        return admin._io.call(lambda: call(admin._admin, *args, **options))

    wait.__qualname__ = f"Admin.{call.__name__}"
    return wait


class Admin(OtherNames):
    """Blocking admin client, usable in ``with``: ``Admin(bootstrap_servers="localhost:9092")``.

    It has the methods of ``AsyncAdmin``, which wait for their results. Threads may share the client. Raises ConfigError
    for an unknown option or an invalid value. Calls also raise UsageError in a callback on the I/O thread, and in a
    child process after ``fork()``.
    """

    other_names = OF_ADMINS

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Unpack[AdminOptions]) -> None:
        self._admin = AsyncAdmin(config, **options)
        self.config = self._admin.config
        self._io = io_thread()
        self._io.close_at_exit(self)

    create_topics = _blocking(AsyncAdmin.create_topics)
    delete_topics = _blocking(AsyncAdmin.delete_topics)
    create_partitions = _blocking(AsyncAdmin.create_partitions)
    list_topics = _blocking(AsyncAdmin.list_topics)
    describe_topics = _blocking(AsyncAdmin.describe_topics)
    describe_cluster = _blocking(AsyncAdmin.describe_cluster)
    describe_configs = _blocking(AsyncAdmin.describe_configs)
    alter_configs = _blocking(AsyncAdmin.alter_configs)
    list_config_resources = _blocking(AsyncAdmin.list_config_resources)
    elect_leaders = _blocking(AsyncAdmin.elect_leaders)
    reassign_partitions = _blocking(AsyncAdmin.reassign_partitions)
    list_reassignments = _blocking(AsyncAdmin.list_reassignments)
    describe_log_dirs = _blocking(AsyncAdmin.describe_log_dirs)
    list_transactions = _blocking(AsyncAdmin.list_transactions)
    describe_transactions = _blocking(AsyncAdmin.describe_transactions)
    fence_producers = _blocking(AsyncAdmin.fence_producers)
    describe_producers = _blocking(AsyncAdmin.describe_producers)
    abort_transaction = _blocking(AsyncAdmin.abort_transaction)
    list_groups = _blocking(AsyncAdmin.list_groups)
    list_groups_by_broker = _blocking(AsyncAdmin.list_groups_by_broker)
    describe_groups = _blocking(AsyncAdmin.describe_groups)
    delete_groups = _blocking(AsyncAdmin.delete_groups)
    list_group_offsets = _blocking(AsyncAdmin.list_group_offsets)
    list_offsets_of_groups = _blocking(AsyncAdmin.list_offsets_of_groups)
    alter_group_offsets = _blocking(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = _blocking(AsyncAdmin.delete_group_offsets)
    remove_group_members = _blocking(AsyncAdmin.remove_group_members)
    list_offsets = _blocking(AsyncAdmin.list_offsets)
    list_ends = _blocking(AsyncAdmin.list_ends)
    first_records = _blocking(AsyncAdmin.first_records)
    delete_records = _blocking(AsyncAdmin.delete_records)
    describe_acls = _blocking(AsyncAdmin.describe_acls)
    create_acls = _blocking(AsyncAdmin.create_acls)
    delete_acls = _blocking(AsyncAdmin.delete_acls)
    describe_user_scram_credentials = _blocking(AsyncAdmin.describe_user_scram_credentials)
    alter_user_scram_credentials = _blocking(AsyncAdmin.alter_user_scram_credentials)
    describe_client_quotas = _blocking(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = _blocking(AsyncAdmin.alter_client_quotas)

    def metrics(self) -> MetricsSnapshot:
        """Return the metrics of this client, as ``AsyncAdmin.metrics``."""
        return self._admin.metrics()

    def close(self) -> None:
        """Close the connections. Has no effect in a child process after ``fork()``."""
        if not self._io.is_here:
            return
        self._io.forget(self)
        self._io.call(self._admin.close)

    def after_fork(self) -> None:
        """Do nothing: the admin client has no lock to replace. In a forked child each call raises UsageError."""

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
