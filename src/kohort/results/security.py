"""What ``kohort acls``, ``kohort users`` and ``kohort quotas`` print."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kohort.results.result import Result


class AclRow(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL; its words are those of Kafka's tools, in small letters."""

    principal: str
    permission: str
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str
    host: str


class AclsListed(Result, frozen=True, kw_only=True, tag="kohort/v1/acls.list"):
    """ACLs, by resource."""

    LINES: ClassVar[str] = "acls"

    acls: list[AclRow]


class AclsAdded(Result, frozen=True, kw_only=True, tag="kohort/v1/acls.add"):
    """The ACLs that were added."""

    LINES: ClassVar[str] = "added"

    added: list[AclRow]


class AclsRemoved(Result, frozen=True, kw_only=True, tag="kohort/v1/acls.remove"):
    """The ACLs that were removed."""

    LINES: ClassVar[str] = "removed"

    removed: list[AclRow]


class MechanismRow(msgspec.Struct, frozen=True, kw_only=True):
    """A mechanism that a user has a password for."""

    name: str
    iterations: int


class UserRow(msgspec.Struct, frozen=True, kw_only=True):
    """A user that logs in with a password (SCRAM)."""

    user: str
    mechanisms: list[MechanismRow]


class UsersListed(Result, frozen=True, kw_only=True, tag="kohort/v1/users.list"):
    """Users with their mechanisms."""

    LINES: ClassVar[str] = "users"

    users: list[UserRow]


class UserAdded(Result, frozen=True, kw_only=True, tag="kohort/v1/users.add"):
    """A user that was given a password, and for which mechanisms."""

    user: str
    mechanisms: list[str]


class RemovedPassword(msgspec.Struct, frozen=True, kw_only=True):
    """A password that is gone."""

    user: str
    mechanism: str


class UsersRemoved(Result, frozen=True, kw_only=True, tag="kohort/v1/users.remove"):
    """The passwords that were removed."""

    LINES: ClassVar[str] = "removed"

    removed: list[RemovedPassword]


class QuotaRow(msgspec.Struct, frozen=True, kw_only=True):
    """Quotas of somebody: of each type that counts the name, null for the default; and the values."""

    entity: dict[str, str | None]
    values: dict[str, float]


class QuotasListed(Result, frozen=True, kw_only=True, tag="kohort/v1/quotas.list"):
    """Quotas, by whom they are for."""

    LINES: ClassVar[str] = "quotas"

    quotas: list[QuotaRow]


class QuotasSet(Result, frozen=True, kw_only=True, tag="kohort/v1/quotas.set"):
    """The quotas that were set."""

    entity: dict[str, str | None]
    values: dict[str, float]


class QuotasRemoved(Result, frozen=True, kw_only=True, tag="kohort/v1/quotas.remove"):
    """The names of the quotas that were removed."""

    entity: dict[str, str | None]
    removed: list[str]
