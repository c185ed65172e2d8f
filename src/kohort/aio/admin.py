"""Administration: ``Admin`` for ordinary code and ``AsyncAdmin`` for asyncio, over the same operations.

Calls that change something raise the first item's error once all items are done; with ``check=False``, and for calls
that only look, the ``Results`` hold each item's value or error.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from kohort.aio.driver import Driver
from kohort.aio.io_thread import io_thread
from kohort.aio.other_names import OF_ADMINS, OtherNames
from kohort.aio.system import system_rng
from kohort.client.admin import groups as group_operations
from kohort.client.admin import nodes as node_operations
from kohort.client.admin import offsets as offset_operations
from kohort.client.admin import topics as topic_operations
from kohort.client.admin import transactions as transaction_operations
from kohort.client.admin.model import (
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    GroupDescription,
    GroupListing,
    ListedOffset,
    NewTopic,
    Reassignment,
    TopicDescription,
    TopicListing,
    TransactionDescription,
    TransactionListing,
)
from kohort.client.admin.operations import AdminMachine, Operation, Results
from kohort.client.requests.engine import Engine
from kohort.client.requests.metadata import Metadata
from kohort.client.user_input import checked_ms
from kohort.config.client import AdminConfig, client_config
from kohort.errors import UsageError
from kohort.model import OffsetAndMetadata, TopicPartition

R = TypeVar("R")
K = TypeVar("K")
V = TypeVar("V")
Topics = Mapping[str, int] | Iterable[NewTopic | str]


class AsyncAdmin(OtherNames):
    """``async with AsyncAdmin(bootstrap_servers="localhost:9092") as admin: await admin.list_topics()``."""

    other_names = OF_ADMINS

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Any) -> None:
        self.config = client_config(AdminConfig, config, options)
        rng = system_rng()
        self._metadata = Metadata(self.config, rng, allow_auto_create=False)
        self._machine = AdminMachine(self.config, self._metadata, rng)
        self._engine = Engine(self.config, [self._machine], self._metadata, rng)
        self._driver: Driver | None = None
        self._closed = False

    async def create_topics(
        self, topics: Topics, *, validate_only: bool = False, check: bool = True, timeout_ms: int | None = None
    ) -> Results[str, CreatedTopic]:
        """Create topics: ``{"orders": 3}``, names (the broker's default counts), or ``NewTopic`` values."""
        operation = topic_operations.create_topics(
            self._metadata, _new_topics(topics), validate_only=validate_only, timeout_ms=self._limit(timeout_ms)
        )
        return _checked(await self._run("create_topics", operation, timeout_ms), check)

    async def delete_topics(
        self, names: Iterable[str], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[str, None]:
        """Delete topics and their records."""
        operation = topic_operations.delete_topics(self._metadata, _names(names), timeout_ms=self._limit(timeout_ms))
        return _checked(await self._run("delete_topics", operation, timeout_ms), check)

    async def create_partitions(
        self,
        totals: Mapping[str, int],
        *,
        validate_only: bool = False,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[str, None]:
        """Raise the number of partitions of topics to these totals."""
        operation = topic_operations.create_partitions(
            self._metadata, totals, validate_only=validate_only, timeout_ms=self._limit(timeout_ms)
        )
        return _checked(await self._run("create_partitions", operation, timeout_ms), check)

    async def list_topics(self, *, internal: bool = False, timeout_ms: int | None = None) -> list[TopicListing]:
        """Every topic by name; those of the cluster itself only if ``internal``."""
        operation = topic_operations.list_topics(self._metadata, internal=internal)
        return await self._run("list_topics", operation, timeout_ms)

    async def describe_topics(
        self, names: Iterable[str], *, timeout_ms: int | None = None
    ) -> Results[str, TopicDescription]:
        """Topics with their partitions."""
        operation = topic_operations.describe_topics(self._metadata, _names(names))
        return await self._run("describe_topics", operation, timeout_ms)

    async def describe_cluster(self, *, timeout_ms: int | None = None) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return await self._run("describe_cluster", topic_operations.describe_cluster(self._metadata), timeout_ms)

    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, timeout_ms: int | None = None
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """The options that hold for topics and brokers."""
        operation = topic_operations.describe_configs(self._metadata, list(resources))
        return await self._run("describe_configs", operation, timeout_ms)

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[ConfigResource, None]:
        """Set options of topics or brokers; None takes one back to its default."""
        operation = topic_operations.alter_configs(self._metadata, changes)
        return _checked(await self._run("alter_configs", operation, timeout_ms), check)

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        unclean: bool = False,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, None]:
        """Let the first replica of partitions (None: of all) lead; ``unclean``: anyone, where nobody leads."""
        limit = self._limit(timeout_ms)
        operation = node_operations.elect_leaders(self._metadata, partitions, unclean=unclean, timeout_ms=limit)
        return _checked(await self._run("elect_leaders", operation, timeout_ms), check)

    async def reassign_partitions(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, None]:
        """Begin to give partitions these replicas, the preferred leader first; None cancels what is under way."""
        operation = node_operations.reassign_partitions(self._metadata, targets, timeout_ms=self._limit(timeout_ms))
        return _checked(await self._run("reassign_partitions", operation, timeout_ms), check)

    async def list_reassignments(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, Reassignment]:
        """The reassignments that are under way."""
        operation = node_operations.list_reassignments(self._metadata, timeout_ms=self._limit(timeout_ms))
        return await self._run("list_reassignments", operation, timeout_ms)

    async def list_transactions(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = (), timeout_ms: int | None = None
    ) -> list[TransactionListing]:
        """Every transactional id of the cluster, or those in these states or of these producer ids (KIP-664)."""
        operation = transaction_operations.list_transactions(self._metadata, states=states, producer_ids=producer_ids)
        return await self._run("list_transactions", operation, timeout_ms)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Results[str, TransactionDescription]:
        """What these transactional ids have open, since when, and where."""
        operation = transaction_operations.describe_transactions(self._metadata, _names(transactional_ids))
        return await self._run("describe_transactions", operation, timeout_ms)

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[str, None]:
        """Abort what these transactional ids have open; the producers that have it open can do nothing any more."""
        operation = transaction_operations.fence_producers(self._metadata, _names(transactional_ids))
        return _checked(await self._run("fence_producers", operation, timeout_ms), check)

    async def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = (), timeout_ms: int | None = None
    ) -> list[GroupListing]:
        """Every group of the cluster, or those in these states and of these types."""
        operation = group_operations.list_groups(self._metadata, states=states, types=types)
        return await self._run("list_groups", operation, timeout_ms)

    async def describe_groups(
        self, groups: Iterable[str], *, timeout_ms: int | None = None
    ) -> Results[str, GroupDescription]:
        """Groups with their members."""
        operation = group_operations.describe_groups(self._metadata, _names(groups))
        return await self._run("describe_groups", operation, timeout_ms)

    async def delete_groups(
        self, groups: Iterable[str], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[str, None]:
        """Delete groups without members, and their offsets."""
        operation = group_operations.delete_groups(self._metadata, _names(groups))
        return _checked(await self._run("delete_groups", operation, timeout_ms), check)

    async def list_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> Results[TopicPartition, OffsetAndMetadata | None]:
        """What a group has committed, for all its partitions or for these (None where nothing is)."""
        operation = group_operations.list_group_offsets(self._metadata, group, partitions)
        return await self._run(f"list_group_offsets of {group!r}", operation, timeout_ms)

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, None]:
        """Commit offsets for a group that has no members: how consumers are moved."""
        wanted = {tp: at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at) for tp, at in offsets.items()}
        operation = group_operations.alter_group_offsets(self._metadata, group, wanted)
        return _checked(await self._run(f"alter_group_offsets of {group!r}", operation, timeout_ms), check)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[TopicPartition, None]:
        """Forget what a group has committed for partitions of topics that it no longer reads."""
        operation = group_operations.delete_group_offsets(self._metadata, group, list(partitions))
        return _checked(await self._run(f"delete_group_offsets of {group!r}", operation, timeout_ms), check)

    async def list_offsets(
        self,
        places: Mapping[TopicPartition, int | str],
        *,
        isolation_level: str = "read_uncommitted",
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, ListedOffset]:
        """An offset per partition: ``"earliest"``, ``"latest"``, ``"max_timestamp"`` or a time in milliseconds."""
        operation = offset_operations.list_offsets(self._metadata, places, isolation_level=isolation_level)
        return await self._run("list_offsets", operation, timeout_ms)

    async def delete_records(
        self, before: Mapping[TopicPartition, int | str], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[TopicPartition, int]:
        """Delete the records before these offsets (``"latest"``: all there are); where the partitions begin now."""
        operation = offset_operations.delete_records(self._metadata, before, timeout_ms=self._limit(timeout_ms))
        return _checked(await self._run("delete_records", operation, timeout_ms), check)

    async def close(self) -> None:
        """End the connections; operations under way fail."""
        if not self._closed:
            self._closed = True
            if self._driver is not None:
                await self._driver.close()

    async def __aenter__(self) -> AsyncAdmin:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _limit(self, timeout_ms: int | None) -> int:
        return self.config.default_api_timeout_ms if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)

    async def _run(self, name: str, operation: Operation[R], timeout_ms: int | None) -> R:
        if self._closed:
            raise UsageError("the admin client is closed")
        if self._driver is None:
            self._driver = Driver(self._engine)
        promise = self._machine.start(name, operation, self._limit(timeout_ms), self._driver.clock.now_ms())
        await self._driver.until(lambda: True if promise.done else None)
        if not promise.done:
            raise UsageError("the admin client was closed")
        return promise.result()


class Admin(OtherNames):
    """The calls of ``AsyncAdmin``, each waiting for its result: ``Admin(bootstrap_servers="localhost:9092")``."""

    other_names = OF_ADMINS

    def __init__(self, config: Mapping[str, Any] | None = None, /, **options: Any) -> None:
        self._admin = AsyncAdmin(config, **options)
        self.config = self._admin.config
        self._io = io_thread()
        self._io.close_at_exit(self)

    def create_topics(
        self, topics: Topics, *, validate_only: bool = False, check: bool = True, timeout_ms: int | None = None
    ) -> Results[str, CreatedTopic]:
        """Create topics: ``{"orders": 3}``, names (the broker's default counts), or ``NewTopic`` values."""
        options = {"validate_only": validate_only, "check": check, "timeout_ms": timeout_ms}
        return self._wait(self._admin.create_topics, topics, **options)

    def delete_topics(
        self, names: Iterable[str], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[str, None]:
        """Delete topics and their records."""
        return self._wait(self._admin.delete_topics, names, check=check, timeout_ms=timeout_ms)

    def create_partitions(
        self,
        totals: Mapping[str, int],
        *,
        validate_only: bool = False,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[str, None]:
        """Raise the number of partitions of topics to these totals."""
        options = {"validate_only": validate_only, "check": check, "timeout_ms": timeout_ms}
        return self._wait(self._admin.create_partitions, totals, **options)

    def list_topics(self, *, internal: bool = False, timeout_ms: int | None = None) -> list[TopicListing]:
        """Every topic by name; those of the cluster itself only if ``internal``."""
        return self._wait(self._admin.list_topics, internal=internal, timeout_ms=timeout_ms)

    def describe_topics(self, names: Iterable[str], *, timeout_ms: int | None = None) -> Results[str, TopicDescription]:
        """Topics with their partitions."""
        return self._wait(self._admin.describe_topics, names, timeout_ms=timeout_ms)

    def describe_cluster(self, *, timeout_ms: int | None = None) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return self._wait(self._admin.describe_cluster, timeout_ms=timeout_ms)

    def describe_configs(
        self, resources: Iterable[ConfigResource], *, timeout_ms: int | None = None
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """The options that hold for topics and brokers."""
        return self._wait(self._admin.describe_configs, resources, timeout_ms=timeout_ms)

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[ConfigResource, None]:
        """Set options of topics or brokers; None takes one back to its default."""
        return self._wait(self._admin.alter_configs, changes, check=check, timeout_ms=timeout_ms)

    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        unclean: bool = False,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, None]:
        """Let the first replica of partitions (None: of all) lead; ``unclean``: anyone, where nobody leads."""
        options = {"unclean": unclean, "check": check, "timeout_ms": timeout_ms}
        return self._wait(self._admin.elect_leaders, partitions, **options)

    def reassign_partitions(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, None]:
        """Begin to give partitions these replicas, the preferred leader first; None cancels what is under way."""
        return self._wait(self._admin.reassign_partitions, targets, check=check, timeout_ms=timeout_ms)

    def list_reassignments(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, Reassignment]:
        """The reassignments that are under way."""
        return self._wait(self._admin.list_reassignments, timeout_ms=timeout_ms)

    def list_transactions(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = (), timeout_ms: int | None = None
    ) -> list[TransactionListing]:
        """Every transactional id of the cluster, or those in these states or of these producer ids (KIP-664)."""
        return self._wait(
            self._admin.list_transactions, states=states, producer_ids=producer_ids, timeout_ms=timeout_ms
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Results[str, TransactionDescription]:
        """What these transactional ids have open, since when, and where."""
        return self._wait(self._admin.describe_transactions, transactional_ids, timeout_ms=timeout_ms)

    def fence_producers(
        self, transactional_ids: Iterable[str], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[str, None]:
        """Abort what these transactional ids have open; the producers that have it open can do nothing any more."""
        return self._wait(self._admin.fence_producers, transactional_ids, check=check, timeout_ms=timeout_ms)

    def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = (), timeout_ms: int | None = None
    ) -> list[GroupListing]:
        """Every group of the cluster, or those in these states and of these types."""
        return self._wait(self._admin.list_groups, states=states, types=types, timeout_ms=timeout_ms)

    def describe_groups(
        self, groups: Iterable[str], *, timeout_ms: int | None = None
    ) -> Results[str, GroupDescription]:
        """Groups with their members."""
        return self._wait(self._admin.describe_groups, groups, timeout_ms=timeout_ms)

    def delete_groups(
        self, groups: Iterable[str], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[str, None]:
        """Delete groups without members, and their offsets."""
        return self._wait(self._admin.delete_groups, groups, check=check, timeout_ms=timeout_ms)

    def list_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> Results[TopicPartition, OffsetAndMetadata | None]:
        """What a group has committed, for all its partitions or for these (None where nothing is)."""
        return self._wait(self._admin.list_group_offsets, group, partitions, timeout_ms=timeout_ms)

    def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, None]:
        """Commit offsets for a group that has no members: how consumers are moved."""
        return self._wait(self._admin.alter_group_offsets, group, offsets, check=check, timeout_ms=timeout_ms)

    def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[TopicPartition, None]:
        """Forget what a group has committed for partitions of topics that it no longer reads."""
        return self._wait(self._admin.delete_group_offsets, group, partitions, check=check, timeout_ms=timeout_ms)

    def list_offsets(
        self,
        places: Mapping[TopicPartition, int | str],
        *,
        isolation_level: str = "read_uncommitted",
        timeout_ms: int | None = None,
    ) -> Results[TopicPartition, ListedOffset]:
        """An offset per partition: ``"earliest"``, ``"latest"``, ``"max_timestamp"`` or a time in milliseconds."""
        options = {"isolation_level": isolation_level, "timeout_ms": timeout_ms}
        return self._wait(self._admin.list_offsets, places, **options)

    def delete_records(
        self, before: Mapping[TopicPartition, int | str], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[TopicPartition, int]:
        """Delete the records before these offsets (``"latest"``: all there are); where the partitions begin now."""
        return self._wait(self._admin.delete_records, before, check=check, timeout_ms=timeout_ms)

    def close(self) -> None:
        """End the connections; in a child process that has it by a fork this does nothing."""
        if not self._io.is_here:
            return
        self._io.forget(self)
        self._io.call(self._admin.close)

    def inherited(self) -> None:
        """See ``Closeable``: it has no lock, and each of its calls is checked."""

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self, call: Callable[..., Coroutine[Any, Any, R]], *args: Any, **options: Any) -> R:
        return self._io.call(lambda: call(*args, **options))


def _checked(results: Results[K, V], check: bool) -> Results[K, V]:
    return results.check() if check else results


def _new_topics(topics: Topics) -> list[NewTopic]:
    if isinstance(topics, Mapping):
        return [NewTopic(name, partitions) for name, partitions in topics.items()]
    if isinstance(topics, str):
        raise UsageError(f"topics are a mapping or a list; for one topic: [{topics!r}]")
    return [topic if isinstance(topic, NewTopic) else NewTopic(topic) for topic in topics]


def _names(names: Iterable[str]) -> list[str]:
    """A list of names. A bare string is refused: its letters are names too, and rarely meant."""
    if isinstance(names, str):
        raise UsageError(f"names are a list; for one name: [{names!r}]")
    return list(names)
