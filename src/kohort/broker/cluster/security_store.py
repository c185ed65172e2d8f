"""``kohort-security.json``: ACLs, SCRAM users and quotas; replaced as a whole with every change.

Kafka keeps them in its metadata quorum; the format is ours. All nodes of a process share one store, so a change holds
everywhere at once. The section of a SCRAM user has salt, iterations and two keys for each mechanism, which suffice for
no login (protocol/security.md#scram).
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
"""Of all quotas, by estimate: the file is written anew with every change."""
USERS: Final = "users"
ADD_SCRAM: Final = "kohort.add.scram"


class SecurityStore:
    """The sections of the file, each a list of JSON objects."""

    def __init__(self, storage: Storage) -> None:
        """Read the file, if it is there. Raises StorageError where it cannot be read: without it, strangers might do
        what was forbidden."""
        self._storage = storage
        advice = "Mend it, or remove it to begin without ACLs, users and quotas"
        self._sections: dict[str, list[Any]] = load(storage, SECURITY_FILE, _parse, advice) or {}

    def section(self, name: str) -> list[Any]:
        """Return what is kept of a section."""
        return self._sections.get(name, [])

    def replace(self, name: str, content: list[Any]) -> None:
        """Keep ``content`` as a section from now on; durable when this returns. Raises ApiError."""
        sections = {**self._sections, name: content}
        save(self._storage, SECURITY_FILE, sections, private=True)
        self._sections = sections


def _parse(content: Any) -> dict[str, list[Any]]:
    sections = {name: content.get(name, []) for name in SECTIONS}
    if not all(isinstance(held, list) for held in sections.values()):
        raise ValueError("a section is no list")
    return sections


class StoredQuotas:
    """The table in force. ``any_on_requests`` is what everyone who serves a request looks at, so it is a plain
    field."""

    __slots__ = ("_store", "any_on_requests", "table")

    def __init__(self, store: SecurityStore) -> None:
        """Take what is kept. Raises StorageError where it is no table of quotas."""
        self._store = store
        try:
            self.table = QuotaTable(store.section(QUOTAS))
        except (*MISFITS, ApiError) as error:
            advice = "Mend it, or take the section out to begin without quotas"
            raise StorageError(f"{SECURITY_FILE}: {QUOTAS} cannot be read ({error!r}). {advice}") from error
        self.any_on_requests = bool(self.table)

    def alter(self, changes: Mapping[Entity, Mapping[str, float | None]]) -> None:
        """Change quotas, from now on and for good; None removes one. Raises ApiError where that cannot be written."""
        table = self.table.altered(changes)
        if table.held_bytes > max(QUOTAS_MOST_BYTES, self.table.held_bytes):
            raise ApiError(
                ErrorCode.POLICY_VIOLATION, f"there is no room for more quotas than {QUOTAS_MOST_BYTES} bytes hold"
            )
        self._store.replace(QUOTAS, table.as_section())
        self.table = table
        self.any_on_requests = bool(table)


class UserAndMechanism(NamedTuple):
    user: str
    mechanism: str


Credentials = Mapping[UserAndMechanism, ScramCredential]


class ScramUsers:
    """The section of the store, read once and again whenever a node of the process has replaced it."""

    def __init__(self, store: SecurityStore) -> None:
        """Read what is there. Raises StorageError for what makes no sense: a user more or less is not to be guessed."""
        self._store = store
        self._read: list[Any] = []
        self._credentials: Credentials = {}
        self.all()

    def all(self) -> Credentials:
        """Return every credential."""
        section = self._store.section(USERS)
        if section is not self._read:
            try:
                self._credentials = dict(_parsed(one) for one in section)
            except MISFITS as error:
                raise StorageError(f"{SECURITY_FILE}: a user's credential cannot be read: {error!r}") from error
            self._read = section
        return self._credentials

    def find(self, user: str, mechanism: str) -> ScramCredential | None:
        """Return what is kept of a user's password, or None."""
        return self.all().get(UserAndMechanism(user, mechanism))

    def add_first(self, text: Secret, rng: Rng) -> None:
        """Add users that are not there yet, as ``kohort.add.scram`` names them. Raises ConfigError, ApiError."""
        named = parse_users(ADD_SCRAM, text, lambda: rng.getrandbits(8 * SALT_BYTES).to_bytes(SALT_BYTES, "big"))
        new = {UserAndMechanism(one.user, one.mechanism): one.credential for one in named}
        if missing := {key: credential for key, credential in new.items() if key not in self.all()}:
            self.change((), missing)

    def change(self, deleted: Iterable[UserAndMechanism], upserted: Mapping[UserAndMechanism, ScramCredential]) -> None:
        """Delete, then upsert; durable when this returns. Raises ApiError."""
        gone = set(deleted)
        kept = {key: one for key, one in self.all().items() if key not in gone} | dict(upserted)
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
        raise ValueError(f"mechanism {one['mechanism']!r}")
    salt, stored_key, server_key = (
        base64.b64decode(one[name], validate=True) for name in ("salt", "stored_key", "server_key")
    )
    key = UserAndMechanism(str(one["name"]), one["mechanism"])
    return key, ScramCredential(salt, stored_key, server_key, int(one["iterations"]))
