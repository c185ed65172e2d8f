"""The calls of the admin client that tell how far groups are, of many groups and partitions at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TypeVar

from kohort.client.admin import first_records as first_record_operations
from kohort.client.admin import groups as group_operations
from kohort.client.admin import offsets as offset_operations
from kohort.client.admin.model import FirstRecord, LogEnds, PartitionOffset
from kohort.client.admin.operations import Operation, Results
from kohort.client.requests.metadata import Metadata
from kohort.errors import UsageError
from kohort.model import OffsetAndMetadata, TopicPartition

R = TypeVar("R")


class PositionCalls:
    """What ``AsyncAdmin`` can tell of where groups are, where logs begin and end, and when records were appended."""

    _metadata: Metadata

    @abstractmethod
    async def _run(self, name: str, operation: Operation[R], timeout_ms: int | None, about: str = "") -> R: ...

    async def list_offsets_of_groups(
        self, groups: Iterable[str], *, timeout_ms: int | None = None
    ) -> Results[str, Results[TopicPartition, OffsetAndMetadata | None]]:
        """Return all that each of these groups has committed, by group id: many groups in a request (KIP-709).

        ``results[group]`` raises ApiError for a group that must not be described. Raises UsageError for a bare string.
        """
        if isinstance(groups, str):
            raise UsageError(f"names are a list; for one name: [{groups!r}]")
        operation = group_operations.list_offsets_of_groups(self._metadata, groups)
        return await self._run("list_offsets_of_groups", operation, timeout_ms)

    async def list_ends(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> Results[TopicPartition, LogEnds]:
        """Return where the log of each partition begins, and where it ends for readers of both isolation levels.

        ``results[partition]`` raises ApiError for a partition that does not exist.
        """
        return await self._run("list_ends", offset_operations.list_ends(self._metadata, partitions), timeout_ms)

    async def first_records(
        self,
        places: Iterable[PartitionOffset],
        *,
        isolation_level: str = "read_committed",
        timeout_ms: int | None = None,
    ) -> Results[PartitionOffset, FirstRecord | None]:
        """Return offset and time stamp of the first record at or after each place, read from the log; None where there
        is none up to the end that readers of ``isolation_level`` see. What is no record is gone past: markers of
        transactions, aborted records (but for read_uncommitted), and what compaction took out.

        ``results[place]`` raises ApiError for a place that the log does not have (OFFSET_OUT_OF_RANGE), and
        CorruptRecord where the batch there cannot be read.
        """
        operation = first_record_operations.first_records(self._metadata, places, isolation_level=isolation_level)
        return await self._run("first_records", operation, timeout_ms)
