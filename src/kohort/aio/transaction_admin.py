"""The calls of the admin client that are about transactions: what coordinators know of them, what partitions do, and
their end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TypeVar

from kohort.aio.admin_input import names_of
from kohort.client.admin import partition_producers as producer_operations
from kohort.client.admin import transactions as transaction_operations
from kohort.client.admin.model import ProducerState, TransactionDescription, TransactionListing
from kohort.client.admin.operations import Operation, Results
from kohort.client.requests.metadata import Metadata
from kohort.model import TopicPartition

R = TypeVar("R")


class TransactionCalls:
    """What ``AsyncAdmin`` can tell of transactions, and how it ends them."""

    _metadata: Metadata

    @abstractmethod
    async def _run(self, name: str, operation: Operation[R], timeout_ms: int | None, about: str = "") -> R: ...

    async def list_transactions(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = (), timeout_ms: int | None = None
    ) -> list[TransactionListing]:
        """Return every transactional id of the cluster, or those in these states or of these producer ids (KIP-664).

        States have Kafka's names, such as ``"Ongoing"``.
        """
        operation = transaction_operations.list_transactions(self._metadata, states=states, producer_ids=producer_ids)
        return await self._run("list_transactions", operation, timeout_ms)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Results[str, TransactionDescription]:
        """Return the open transaction of each of these transactional ids: partitions, start, coordinator (KIP-664).

        ``results[id]`` raises ApiError (TRANSACTIONAL_ID_NOT_FOUND) for an id that no coordinator knows. Raises
        UsageError for a bare string.
        """
        operation = transaction_operations.describe_transactions(self._metadata, names_of(transactional_ids))
        return await self._run("describe_transactions", operation, timeout_ms)

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[str, None]:
        """Abort the open transactions of these transactional ids, and fence their producers: they can send no more.

        Raises ApiError for the first id that was refused, once all are done; with ``check=False`` the results hold the
        errors instead. Raises UsageError for a bare string.
        """
        operation = transaction_operations.fence_producers(self._metadata, names_of(transactional_ids))
        results = await self._run("fence_producers", operation, timeout_ms)
        return results.check() if check else results

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> Results[TopicPartition, list[ProducerState]]:
        """Return the producers that the leader of each partition knows, with what each has open there (KIP-664).

        ``results[partition]`` raises ApiError for a partition that does not exist or must not be read.
        """
        operation = producer_operations.describe_producers(self._metadata, partitions)
        return await self._run("describe_producers", operation, timeout_ms)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Abort what a producer has open in a partition, by a marker: for what no coordinator ends any more (KIP-664).

        The numbers are those of ``describe_producers``; a coordinator's epoch of None or -1 counts as 0. No coordinator
        is asked: what it still knows is better ended by ``fence_producers``, as it may commit what was aborted here.
        Raises ApiError where the leader refuses it, such as INVALID_PRODUCER_EPOCH after a later epoch of the producer,
        and UsageError for a number that is none.
        """
        operation = producer_operations.abort_transaction(
            self._metadata,
            partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
        )
        await self._run("abort_transaction", operation, timeout_ms, partition.topic)
