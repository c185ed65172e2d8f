"""Security administrator actor: changes ACLs, quotas, users and passwords, and undoes all changes in the calm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from kohort.broker.cluster.security_store import SecurityStore
from kohort.client.admin.acls import AclBinding, AclBindingFilter, create_acls, delete_acls
from kohort.client.admin.quotas import ClientQuotaEntity, QuotaMatch, alter_client_quotas
from kohort.client.admin.scram_users import (
    SaltedPassword,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
    alter_user_scram_credentials,
    hashed,
)
from kohort.secret import Secret
from kohort.security.quotas.entities import Quota
from kohort_lab.sim.actors.admins import AdminActor
from kohort_lab.sim.run_context import RunContext

MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 4096
LASTS_MS: Final = (200, 15_000)
LOOK_AGAIN_MS: Final = 1_500
EVERYBODY: Final = "User:*"
QUOTAS: Final = {
    Quota.PRODUCED: (20, 100, 1_000),
    Quota.FETCHED: (20, 200, 2_000),
    Quota.MUTATIONS: (0.05, 1),
}


def password_of(user: str) -> Secret:
    """Return the password of a user."""
    return Secret(f"{user}-secret")


@lru_cache(maxsize=64)
def salted(user: str, turn: int) -> SaltedPassword:
    """Return the salted password of a user; each ``turn`` has another salt."""
    salt = f"{user} {turn}".encode().ljust(24, b".")
    return SaltedPassword(salt, hashed(password_of(user), MECHANISM, salt, ITERATIONS))


@dataclass(frozen=True, slots=True)
class SecurityTargets:
    """Users and resources that may be denied or limited."""

    producer: str
    members: Sequence[str]
    admin: str
    group_id: str
    topics: Sequence[str]
    hides: bool
    """True if an ACL may also deny Describe on a topic."""


class SecurityAdmin:
    """Security administrator; ``security`` is the brokers' store, None while the brokers are down."""

    def __init__(
        self,
        context: RunContext,
        admin: AdminActor,
        targets: SecurityTargets,
        security: Callable[[], SecurityStore | None],
    ) -> None:
        self._world = context.world
        self._rng = context.world.fork_rng()
        self._admin = admin
        self._targets = targets
        self._security = security
        self._limited: set[tuple[ClientQuotaEntity, Quota]] = set()
        self._turn = 0
        self._is_calm = False

    def forbid(self) -> None:
        """Add a DENY ACL, and remove it after a random time."""
        acl = self._denial()
        self._admin.do(f"forbids: {acl}", lambda _: create_acls([acl]))
        self._later(lambda: self._admin.do(f"forbids no more: {acl}", lambda _: delete_acls([acl.filter])))

    def limit(self) -> None:
        """Set a quota, and remove it after a random time."""
        quota = self._rng.choice(sorted(QUOTAS))
        targets = self._targets
        of = {
            Quota.PRODUCED: [targets.producer],
            Quota.FETCHED: list(targets.members),
            Quota.MUTATIONS: [targets.admin],
        }
        name = self._rng.choice(of[quota])
        entity = self._rng.choice(
            [
                ClientQuotaEntity(user=name),
                ClientQuotaEntity(user=QuotaMatch.DEFAULT),
                ClientQuotaEntity(client_id=name),
            ]
        )
        value = self._rng.choice(QUOTAS[quota])
        self._limited.add((entity, quota))
        self._set_quota(entity, quota, value)
        self._later(lambda: self._set_quota(entity, quota, None))

    def change_user(self) -> None:
        """Remove the user of a member and add it again later, or set its password again."""
        user = self._rng.choice(self._targets.members)
        if self._rng.random() < 0.5:
            deletion = UserScramCredentialDeletion(user, MECHANISM)
            self._admin.do(f"removes user {user}", lambda m: alter_user_scram_credentials(m, [deletion], []))
        self._later(lambda: self._set_password(user))

    def _denial(self) -> AclBinding:
        targets, rng = self._targets, self._rng
        who = rng.choice([*targets.members, targets.producer, "*"])
        topic, group = rng.choice(targets.topics), targets.group_id
        pattern = rng.choice(["literal", "prefixed"])
        if who == targets.producer or (who == "*" and rng.random() < 0.3):
            of = ("topic", rng.choice([topic, topic, topic[:1] if pattern == "prefixed" else "*"]), "write")
        else:
            of = rng.choice([("group", group, "read"), ("topic", topic, "read")])
        kind, name, operation = of
        wider = rng.choice([operation, operation, "all"])
        if kind == "group" or who == targets.producer or targets.hides:
            operation = wider
        return AclBinding(kind, name, f"User:{who}", operation, "deny", pattern_type=pattern)

    def _set_quota(self, entity: ClientQuotaEntity, quota: Quota, value: float | None) -> None:
        quota_text = "no quota" if value is None else f"{value:g}"
        change = {entity: {str(quota): value}}
        self._admin.do(
            f"sets {quota} of {entity} to {quota_text}", lambda m: alter_client_quotas(m, change, validate_only=False)
        )

    def _set_password(self, user: str) -> None:
        self._turn += 1
        made = salted(user, self._turn % 4)
        upsertion = UserScramCredentialUpsertion(user, password_of(user), MECHANISM, ITERATIONS)
        self._admin.do(
            f"sets the password of {user}", lambda m: alter_user_scram_credentials(m, [], [(upsertion, made)])
        )

    def _later(self, undo: Callable[[], object]) -> None:
        def later() -> None:
            if not self._is_calm:
                undo()

        self._world.after(self._rng.randint(*LASTS_MS), later)

    def calm(self) -> None:
        """Undo all changes, and retry until all are undone."""
        self._is_calm = True
        if self._admin.done:
            for undo in self._undone():
                undo()
        if not self._admin.done or self.why_not_undone() is not None:
            self._world.after(LOOK_AGAIN_MS, self.calm)

    def why_not_undone(self) -> str | None:
        """Return the remaining ACLs, quotas and missing users as text, or None."""
        security = self._security()
        if security is None:
            return "the broker is down"
        if denials := [acl for acl in security.section("acls") if acl["permissionType"] == "DENY"]:
            return f"forbidden is {denials}"
        if quotas := security.section("quotas"):
            return f"limited is {quotas}"
        if missing := self._missing(security):
            return f"no user is called {missing}"
        return None

    def _missing(self, security: SecurityStore) -> list[str]:
        there = {user["name"] for user in security.section("users")}
        return [user for user in self._targets.members if user not in there]

    def _undone(self) -> list[Callable[[], object]]:
        security = self._security()
        if security is None:
            return []
        undo: list[Callable[[], object]] = []
        if any(acl["permissionType"] == "DENY" for acl in security.section("acls")):
            every = AclBindingFilter(permission="deny")
            undo.append(lambda: self._admin.do("forbids nothing", lambda _: delete_acls([every])))
        if security.section("quotas"):
            limited = sorted(self._limited, key=str)
            undo += [partial(self._set_quota, entity, quota, None) for entity, quota in limited]
        undo += [partial(self._set_password, user) for user in self._missing(security)]
        return undo
