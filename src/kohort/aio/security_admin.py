"""The calls of the admin client that are about security: ACLs, users with SCRAM credentials, quotas."""

from __future__ import annotations

import asyncio
import random
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import TypeVar, get_args

from kohort.client.admin import acls as acl_operations
from kohort.client.admin import quotas as quota_operations
from kohort.client.admin import scram_users as user_operations
from kohort.client.admin.acls import AclBinding, AclBindingFilter
from kohort.client.admin.operations import Operation, Results
from kohort.client.admin.quotas import ClientQuotaEntity
from kohort.client.admin.scram_users import (
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kohort.client.requests.metadata import Metadata
from kohort.errors import UsageError

R = TypeVar("R")
T = TypeVar("T")


class SecurityCalls:
    """What ``AsyncAdmin`` can say and change about who may do what, and how much of it."""

    _metadata: Metadata

    @abstractmethod
    async def _run(self, name: str, operation: Operation[R], timeout_ms: int | None, about: str = "") -> R: ...

    async def describe_acls(
        self, wanted: AclBindingFilter | None = None, *, timeout_ms: int | None = None
    ) -> list[AclBinding]:
        """Return the ACLs that a filter finds, sorted; without one, all (KIP-140).

        Raises ApiError: SECURITY_DISABLED where the brokers have no authorizer, CLUSTER_AUTHORIZATION_FAILED for who
        may not see them.
        """
        operation = acl_operations.describe_acls(AclBindingFilter() if wanted is None else wanted)
        return await self._run("describe_acls", operation, timeout_ms)

    async def create_acls(
        self, bindings: Iterable[AclBinding], *, check: bool = True, timeout_ms: int | None = None
    ) -> Results[AclBinding, None]:
        """Add ACLs (KIP-140); one that is there already stays as it is.

        Raises ApiError for the first that was refused, such as SECURITY_DISABLED, once all are done; with
        ``check=False`` the results hold the errors instead. Raises UsageError for anything but a list of ACLs.
        """
        wanted = list(dict.fromkeys(_all_of(bindings, AclBinding)))
        results = await self._run("create_acls", acl_operations.create_acls(wanted), timeout_ms)
        return results.check() if check else results

    async def delete_acls(
        self,
        filters: Iterable[AclBindingFilter | AclBinding],
        *,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[AclBindingFilter, tuple[AclBinding, ...]]:
        """Remove the ACLs that filters find, or these very ACLs; the results are what went, by filter (KIP-140).

        A filter that finds none is no error. Raises ApiError for the first that was refused, once all are done; with
        ``check=False`` the results hold the errors instead. Raises UsageError for anything but a list of them.
        """
        given = _all_of(filters, AclBindingFilter | AclBinding)
        wanted = list(dict.fromkeys(f.filter if isinstance(f, AclBinding) else f for f in given))
        results = await self._run("delete_acls", acl_operations.delete_acls(wanted), timeout_ms)
        return results.check() if check else results

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout_ms: int | None = None
    ) -> Results[str, tuple[ScramCredentialInfo, ...]]:
        """Return the SCRAM mechanisms that users have a password for, by name; None means all users (KIP-554).

        ``results[user]`` raises ApiError (RESOURCE_NOT_FOUND) for one that has none. Raises UsageError for a bare
        string.
        """
        if isinstance(users, str):
            raise UsageError(f"names are a list; for one name: [{users!r}]")
        operation = user_operations.describe_user_scram_credentials(None if users is None else list(users))
        return await self._run("describe_user_scram_credentials", operation, timeout_ms)

    async def alter_user_scram_credentials(
        self,
        alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion],
        *,
        check: bool = True,
        timeout_ms: int | None = None,
    ) -> Results[str, None]:
        """Set and remove passwords of users for SCRAM; what is sent is a salt and a hash, never the password (KIP-554).

        Raises ApiError for the first user that was refused, such as RESOURCE_NOT_FOUND for a deletion of what is not
        there, once all are done; with ``check=False`` the results hold the errors instead. Raises UsageError for
        anything but a list of alterations.
        """
        given = _all_of(alterations, UserScramCredentialUpsertion | UserScramCredentialDeletion)
        deletions = [a for a in given if isinstance(a, UserScramCredentialDeletion)]
        upsertions = [a for a in given if isinstance(a, UserScramCredentialUpsertion)]
        chance = random.SystemRandom()
        salted = await asyncio.to_thread(lambda: [user_operations.salt_password(u, chance) for u in upsertions])
        operation = user_operations.alter_user_scram_credentials(
            self._metadata, deletions, list(zip(upsertions, salted, strict=True))
        )
        results = await self._run("alter_user_scram_credentials", operation, timeout_ms)
        return results.check() if check else results

    async def describe_client_quotas(
        self,
        wanted: ClientQuotaEntity | None = None,
        *,
        strict: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        """Return quotas, by whose they are: all, or those of entities that have every part of ``wanted`` (KIP-546).

        ``strict`` leaves out entities that have other parts as well. Raises ApiError for what is no filter.
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
        """Set quotas of users, client ids and addresses; None removes one, the others stay (KIP-546)::

            admin.alter_client_quotas({ClientQuotaEntity(user="alice"): {"producer_byte_rate": 1_000_000}})

        ``validate_only`` has the broker check the request and change nothing. Raises ApiError for the first entity
        that was refused, once all are done; with ``check=False`` the results hold the errors instead. Raises UsageError
        for an entity that names no one.
        """
        operation = quota_operations.alter_client_quotas(self._metadata, changes, validate_only=validate_only)
        results = await self._run("alter_client_quotas", operation, timeout_ms)
        return results.check() if check else results


def _all_of(given: Iterable[T], kinds: type | UnionType) -> list[T]:
    """Return a list of what is given. Raises UsageError for anything that is not of ``kinds``."""
    if isinstance(given, kinds):
        raise UsageError(f"expected a list; for one: [{given!r}]")
    found = list(given)
    for one in found:
        if not isinstance(one, kinds):
            raise UsageError(f"{one!r}: expected {_names(kinds)}")
    return found


def _names(kinds: type | UnionType) -> str:
    return " or ".join(kind.__name__ for kind in get_args(kinds) or (kinds,))
