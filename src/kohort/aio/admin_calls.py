"""Methods of the admin clients for offsets, transactions and security."""

from __future__ import annotations

import asyncio
import random
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import TypeVar, get_args

from kohort.client.admin import acls as acl_operations
from kohort.client.admin import first_records as first_record_operations
from kohort.client.admin import groups as group_operations
from kohort.client.admin import offsets as offset_operations
from kohort.client.admin import quotas as quota_operations
from kohort.client.admin import scram_users as user_operations
from kohort.client.admin import transactions as transaction_operations
from kohort.client.admin.acls import AclBinding, AclBindingFilter
from kohort.client.admin.model import (
    FirstRecord,
    LogEnds,
    NewTopic,
    PartitionOffset,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from kohort.client.admin.operations import Operation, Results
from kohort.client.admin.quotas import ClientQuotaEntity
from kohort.client.admin.scram_users import (
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kohort.client.requests.metadata import Metadata
from kohort.errors import UsageError
from kohort.model import OffsetAndMetadata, TopicPartition

Topics = Mapping[str, int] | Iterable[NewTopic | str]


def new_topics(topics: Topics) -> list[NewTopic]:
    """Convert the ``topics`` argument to ``NewTopic`` values. Raises UsageError for a bare string."""
    if isinstance(topics, Mapping):
        return [NewTopic(name, partitions) for name, partitions in topics.items()]
    if isinstance(topics, str):
        raise UsageError(f"topics must be a mapping or a list; for one topic pass [{topics!r}]")
    return [topic if isinstance(topic, NewTopic) else NewTopic(topic) for topic in topics]


def names_of(names: Iterable[str]) -> list[str]:
    """Convert names to a list. Raises UsageError for a bare string, whose characters would be taken as names."""
    if isinstance(names, str):
        raise UsageError(f"expected a list of names; for one name pass [{names!r}]")
    return list(names)


K = TypeVar("K")
R = TypeVar("R")
T = TypeVar("T")
V = TypeVar("V")


class AdminCalls:
    _metadata: Metadata

    @abstractmethod
    async def _run(self, name: str, operation: Operation[R], timeout_ms: int | None, about: str = "") -> R: ...

    async def _change(
        self, name: str, operation: Operation[Results[K, V]], timeout_ms: int | None, check: bool, about: str = ""
    ) -> Results[K, V]:
        """Run an operation that changes several items. With ``check`` raise the error of the first refused item."""
        results = await self._run(name, operation, timeout_ms, about)
        return results.check() if check else results


class PositionCalls(AdminCalls):
    """Methods of ``AsyncAdmin`` for committed offsets, log end offsets and timestamps of records."""

    async def list_offsets_of_groups(
        self, groups: Iterable[str], *, timeout_ms: int | None = None
    ) -> Results[str, Results[TopicPartition, OffsetAndMetadata | None]]:
        """Return all committed offsets of each group. One request queries many groups (KIP-709).

        ``results[group]`` raises ApiError if the client may not describe the group. Raises UsageError for a bare
        string.
        """
        operation = group_operations.list_offsets_of_groups(self._metadata, names_of(groups))
        return await self._run("list_offsets_of_groups", operation, timeout_ms)

    async def list_ends(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> Results[TopicPartition, LogEnds]:
        """Return each partition's log start offset, and its end offset for both isolation levels.

        ``results[partition]`` raises ApiError for a missing partition.
        """
        return await self._run("list_ends", offset_operations.list_ends(self._metadata, partitions), timeout_ms)

    async def first_records(
        self,
        places: Iterable[PartitionOffset],
        *,
        isolation_level: str = "read_committed",
        timeout_ms: int | None = None,
    ) -> Results[PartitionOffset, FirstRecord | None]:
        """Fetch the first record at or after each given offset, and return its offset and timestamp.

        The result is None if there is no such record before the end of the log (with read_committed: before the last
        stable offset). Skips transaction markers, offsets without a record and, with read_committed, aborted records.
        ``results[place]`` raises ApiError for an offset outside of the log (OFFSET_OUT_OF_RANGE), and CorruptRecord for
        a damaged batch.
        """
        operation = first_record_operations.first_records(self._metadata, places, isolation_level=isolation_level)
        return await self._run("first_records", operation, timeout_ms)


class TransactionCalls(AdminCalls):
    """Methods of ``AsyncAdmin`` for transactions and producers."""

    async def list_transactions(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = (), timeout_ms: int | None = None
    ) -> list[TransactionListing]:
        """Return the cluster's transactional ids and the states of their transactions (KIP-664).

        ``states``: only transactions in these states, by Kafka's names such as ``"Ongoing"``. ``producer_ids``: only
        transactions of these producers. An empty sequence means all.
        """
        operation = transaction_operations.list_transactions(self._metadata, states=states, producer_ids=producer_ids)
        return await self._run("list_transactions", operation, timeout_ms)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Results[str, TransactionDescription]:
        """Describe the open transaction of each transactional id: partitions, start time, coordinator (KIP-664).

        ``results[id]`` raises ApiError (TRANSACTIONAL_ID_NOT_FOUND) for an unknown id. Raises UsageError for a bare
        string.
        """
        operation = transaction_operations.describe_transactions(self._metadata, names_of(transactional_ids))
        return await self._run("describe_transactions", operation, timeout_ms)

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[str, None]:
        """Fence the producers of transactional ids: brokers reject their requests and abort their open transactions.

        Raises ApiError for a refused id, and UsageError for a bare string.
        """
        operation = transaction_operations.fence_producers(self._metadata, names_of(transactional_ids))
        return await self._change("fence_producers", operation, timeout_ms, check)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> Results[TopicPartition, list[ProducerState]]:
        """Return the producers that have written to each partition, with their open transactions (KIP-664).

        ``results[partition]`` raises ApiError for a missing or unauthorized partition.
        """
        operation = transaction_operations.describe_producers(self._metadata, partitions)
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
        """Abort a hanging transaction: write an abort marker to the partition, bypassing the coordinator (KIP-664).

        Take the ids and epochs from ``describe_producers``; a ``coordinator_epoch`` of None or -1 counts as 0. If a
        coordinator still has the transaction, use ``fence_producers`` instead: that coordinator could commit it later.
        Raises ApiError if the leader refuses, such as INVALID_PRODUCER_EPOCH if the producer has a later epoch, and
        UsageError for an invalid number.
        """
        operation = transaction_operations.abort_transaction(
            self._metadata,
            partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
        )
        await self._run("abort_transaction", operation, timeout_ms, partition.topic)


class SecurityCalls(AdminCalls):
    """Methods of ``AsyncAdmin`` for ACLs, SCRAM users and quotas."""

    async def describe_acls(
        self, wanted: AclBindingFilter | None = None, *, timeout_ms: int | None = None
    ) -> list[AclBinding]:
        """Return the ACLs that match a filter, sorted; without a filter all ACLs (KIP-140).

        Raises ApiError: SECURITY_DISABLED if the brokers have no authorizer, CLUSTER_AUTHORIZATION_FAILED if the client
        may not describe the cluster.
        """
        operation = acl_operations.describe_acls(AclBindingFilter() if wanted is None else wanted)
        return await self._run("describe_acls", operation, timeout_ms)

    async def create_acls(
        self, bindings: Iterable[AclBinding], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[AclBinding, None]:
        """Add ACLs; existing ACLs remain unchanged (KIP-140).

        Raises ApiError for a refused ACL, such as SECURITY_DISABLED, and UsageError for other values than ACLs.
        """
        wanted = list(dict.fromkeys(_all_of(bindings, AclBinding)))
        return await self._change("create_acls", acl_operations.create_acls(wanted), timeout_ms, check)

    async def delete_acls(
        self, filters: Iterable[AclBindingFilter | AclBinding], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[AclBindingFilter, tuple[AclBinding, ...]]:
        """Delete the ACLs that match filters, and return the deleted ACLs of each filter (KIP-140).

        An ``AclBinding`` deletes exactly this ACL. A filter that matches no ACL is no error. Raises ApiError for a
        refused filter, and UsageError for other values.
        """
        given = _all_of(filters, AclBindingFilter | AclBinding)
        wanted = list(dict.fromkeys(f.filter if isinstance(f, AclBinding) else f for f in given))
        return await self._change("delete_acls", acl_operations.delete_acls(wanted), timeout_ms, check)

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> Results[str, tuple[ScramCredentialInfo, ...]]:
        """Return the SCRAM mechanisms for which each user has a password; ``None`` means all users (KIP-554).

        ``results[user]`` raises ApiError (RESOURCE_NOT_FOUND) for a user without a password. Raises UsageError for a
        bare string.
        """
        operation = user_operations.describe_user_scram_credentials(None if users is None else names_of(users))
        return await self._run("describe_user_scram_credentials", operation, timeout_ms)

    async def alter_user_scram_credentials(
        self,
        alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion],
        *,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[str, None]:
        """Set and delete SCRAM passwords of users. The request contains salts and hashes, no passwords (KIP-554).

        Raises ApiError for a refused user, such as RESOURCE_NOT_FOUND when deleting a missing password, and UsageError
        for other values than alterations.
        """
        given = _all_of(alterations, UserScramCredentialUpsertion | UserScramCredentialDeletion)
        deletions = [a for a in given if isinstance(a, UserScramCredentialDeletion)]
        upsertions = [a for a in given if isinstance(a, UserScramCredentialUpsertion)]
        chance = random.SystemRandom()
        salted = await asyncio.to_thread(lambda: [user_operations.salt_password(u, chance) for u in upsertions])
        operation = user_operations.alter_user_scram_credentials(
            self._metadata, deletions, list(zip(upsertions, salted, strict=True))
        )
        return await self._change("alter_user_scram_credentials", operation, timeout_ms, check)

    async def describe_client_quotas(
        self, wanted: ClientQuotaEntity | None = None, *, strict: bool = False, timeout_ms: int | None = None
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        """Return the quotas of each entity (KIP-546).

        An entity has up to three components: user, client id and address. ``wanted=None`` means all entities.
        Otherwise the result has the entities that contain all components of ``wanted``; with ``strict`` they contain no
        other component. Raises ApiError for an invalid filter.
        """
        entity = ClientQuotaEntity() if wanted is None else wanted
        operation = quota_operations.describe_client_quotas(entity, strict=strict)
        return await self._run("describe_client_quotas", operation, timeout_ms)

    async def alter_client_quotas(
        self,
        changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[ClientQuotaEntity, None]:
        """Set quotas of users, client ids and addresses; None deletes a quota, other quotas remain (KIP-546)::

            admin.alter_client_quotas({ClientQuotaEntity(user="alice"): {"producer_byte_rate": 1_000_000}})

        With ``validate_only`` the broker checks the request and changes nothing. Raises ApiError for a refused entity,
        and UsageError for an entity without components.
        """
        operation = quota_operations.alter_client_quotas(self._metadata, changes, validate_only=validate_only)
        return await self._change("alter_client_quotas", operation, timeout_ms, check)


def _all_of(given: Iterable[T], kinds: type | UnionType) -> list[T]:
    if isinstance(given, kinds):
        raise UsageError(f"expected a list; for one item pass [{given!r}]")
    found = list(given)
    for item in found:
        if not isinstance(item, kinds):
            expected = " or ".join(kind.__name__ for kind in get_args(kinds) or (kinds,))
            raise UsageError(f"{item!r}: expected {expected}")
    return found
