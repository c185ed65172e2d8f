"""Who can log in by SCRAM, as the cluster keeps it: salt, iterations and two keys for each user and mechanism, from
which nobody can log in (protocol/security.md#scram)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kohort.broker.cluster.security_store import SECURITY_FILE, SecurityStore
from kohort.clock import Rng
from kohort.errors import StorageError
from kohort.log.storage import MISFITS
from kohort.secret import Secret
from kohort.security.sasl.scram import HASHES, SALT_BYTES, ScramCredential, parse_users

SECTION: Final = "users"
ADD_SCRAM: Final = "kohort.add.scram"


class UserAndMechanism(NamedTuple):
    """What a credential is of."""

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
        section = self._store.section(SECTION)
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
        self._store.replace(SECTION, [_written(key, kept[key]) for key in sorted(kept)])


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
