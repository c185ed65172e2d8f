"""``kohort-security.json``: ACLs, SCRAM users and quotas, rewritten with each change.

All nodes of a process share the store. The stored salt, iterations and keys of a SCRAM user do not suffice to log in
(protocol/security.md#scram).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kohort.broker.cluster.json_files import load, save
from kohort.clock import Rng
from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.log.storage import MISFITS, Storage
from kohort.secret import Secret
from kohort.security.quotas.entities import Entity
from kohort.security.quotas.table import QuotaTable
from kohort.security.sasl.scram import HASHES, SALT_BYTES, ScramCredential, parse_users

SECURITY_FILE: Final = "kohort-security.json"
SECTIONS: Final = ("acls", "users", "quotas")
QUOTAS: Final = "quotas"
QUOTAS_MOST_BYTES: Final = 8 << 20
"""Maximum size of all client quotas in bytes, estimated; each change rewrites the whole file."""
USERS: Final = "users"
ADD_SCRAM: Final = "kohort.add.scram"


class SecurityStore:
    """Content of ``kohort-security.json``: sections for ACLs, SCRAM users and quotas."""

    def __init__(self, storage: Storage) -> None:
        """Read ``kohort-security.json`` if it exists.

        Raises StorageError for an unreadable file: a start without its ACLs would give clients all rights.
        """
        self._storage = storage
        advice = "Repair the file, or remove it to start without ACLs, users and quotas"
        self._sections: dict[str, list[Any]] = load(storage, SECURITY_FILE, _parse, advice) or {}

    def section(self, name: str) -> list[Any]:
        return self._sections.get(name, [])

    def replace(self, name: str, content: list[Any]) -> None:
        """Replace a section of ``kohort-security.json`` durably. Raises ApiError if the write fails."""
        sections = {**self._sections, name: content}
        save(self._storage, SECURITY_FILE, sections, private=True)
        self._sections = sections


def _parse(content: Any) -> dict[str, list[Any]]:
    sections = {name: content.get(name, []) for name in SECTIONS}
    if not all(isinstance(held, list) for held in sections.values()):
        raise ValueError("expected each section to be a list")
    return sections


class StoredQuotas:
    """Client quotas that are stored in ``kohort-security.json``.

    ``any_on_requests`` is a field instead of a property, because each request reads it.
    """

    def __init__(self, store: SecurityStore) -> None:
        self._store = store
        try:
            self.table = QuotaTable(store.section(QUOTAS))
        except (*MISFITS, ApiError) as error:
            raise StorageError(
                f"{SECURITY_FILE}: section {QUOTAS!r} cannot be read ({error!r}). "
                "Repair the section, or remove it to start without quotas"
            ) from error
        self.any_on_requests = bool(self.table)

    def alter(self, changes: Mapping[Entity, Mapping[str, float | None]]) -> None:
        table = self.table.altered(changes)
        if table.held_bytes > max(QUOTAS_MOST_BYTES, self.table.held_bytes):
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"the quotas of all clients exceed {QUOTAS_MOST_BYTES} bytes")
        self._store.replace(QUOTAS, table.as_section())
        self.table = table
        self.any_on_requests = bool(table)


class UserAndMechanism(NamedTuple):
    user: str
    mechanism: str


Credentials = Mapping[UserAndMechanism, ScramCredential]


class ScramUsers:
    """SCRAM credentials of all users, parsed again after any node changed the store."""

    def __init__(self, store: SecurityStore) -> None:
        self._store = store
        self._read: list[Any] = []
        self._credentials: Credentials = {}
        self.all()

    def all(self) -> Credentials:
        section = self._store.section(USERS)
        if section is not self._read:
            try:
                self._credentials = dict(_parsed(one) for one in section)
            except MISFITS as error:
                raise StorageError(
                    f"{SECURITY_FILE}: the credential of a SCRAM user cannot be read: {error!r}"
                ) from error
            self._read = section
        return self._credentials

    def find(self, user: str, mechanism: str) -> ScramCredential | None:
        return self.all().get(UserAndMechanism(user, mechanism))

    def add_first(self, text: Secret, rng: Rng) -> None:
        """Add the users of the option ``kohort.add.scram`` that do not exist yet. Raises ConfigError, ApiError."""
        named = parse_users(ADD_SCRAM, text, lambda: rng.getrandbits(8 * SALT_BYTES).to_bytes(SALT_BYTES, "big"))
        new = {UserAndMechanism(one.user, one.mechanism): one.credential for one in named}
        if missing := {key: credential for key, credential in new.items() if key not in self.all()}:
            self.change((), missing)

    def change(self, deleted: Iterable[UserAndMechanism], upserted: Mapping[UserAndMechanism, ScramCredential]) -> None:
        removed = set(deleted)
        kept = {key: one for key, one in self.all().items() if key not in removed} | dict(upserted)
        self._store.replace(USERS, [_written(key, kept[key]) for key in sorted(kept)])


def _written(key: UserAndMechanism, credential: ScramCredential) -> dict[str, Any]:
    return {
        "name": key.user,
        "mechanism": key.mechanism,
        "salt": base64.b64encode(credential.salt).decode(),
        "stored_key": base64.b64encode(credential.stored_key).decode(),
        "server_key": base64.b64encode(credential.server_key).decode(),
        "iterations": credential.iterations,
    }


def _parsed(one: Mapping[str, Any]) -> tuple[UserAndMechanism, ScramCredential]:
    if one["mechanism"] not in HASHES:
        raise ValueError(f"unknown SCRAM mechanism {one['mechanism']!r}")
    salt, stored_key, server_key = (
        base64.b64decode(one[name], validate=True) for name in ("salt", "stored_key", "server_key")
    )
    key = UserAndMechanism(str(one["name"]), one["mechanism"])
    return key, ScramCredential(salt, stored_key, server_key, int(one["iterations"]))
