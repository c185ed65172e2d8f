"""Bugs of secured clusters: ACLs, quotas and users."""

from __future__ import annotations

from typing import Any

from kohort.broker import group_requests
from kohort.broker.apis import fetch, offset_commit, produce
from kohort.broker.authorization import PASSED, GuardResult
from kohort.broker.client_quotas import Throttling
from kohort.broker.cluster.access_control import AccessControl
from kohort.broker.cluster.security_store import ScramUsers
from kohort.broker.connections.open_connections import OpenConnections
from kohort.client.group.membership_classic import ClassicMembership
from kohort.security.acls import PatternType, Permission
from kohort.security.authorizer import Authorizer
from kohort.steps import Steps
from kohort_lab.sim.planted.bugs import bug
from kohort_lab.sim.planted.patch import Patch

WORLD = "secured"


@bug("security", "commits are not authorized", WORLD)
def commit_unguarded(patch: Patch) -> None:
    patch.function(offset_commit.guard_commit, lambda *_: PASSED)


@bug("security", "a commit is denied but persisted", WORLD)
def refused_commit_is_made(patch: Patch) -> None:
    def guard(real: Any, rights: Any) -> Steps[GuardResult]:
        found = yield from real(rights)
        refused = found.answer
        return found if refused is None else GuardResult(amend=lambda _: refused)

    patch.function(offset_commit.guard_commit, guard)


@bug("security", "heartbeats are not authorized", WORLD)
def heartbeat_unguarded(patch: Patch) -> None:
    patch.function(group_requests.guard_member, lambda *_: PASSED)


@bug("security", "produce requests are not authorized", WORLD)
def produce_unguarded(patch: Patch) -> None:
    patch.function(produce.guard_produce, lambda *_: PASSED)


@bug("security", "a fetch returns unauthorized topics", WORLD)
def fetch_unguarded(patch: Patch) -> None:
    def denied(_real: Any, *_args: Any) -> Steps[frozenset[Any]]:
        yield from ()
        return frozenset()

    patch.function(fetch.denied_topics, denied)


@bug("security", "cached authorization decisions survive an ACL change", WORLD)
def decisions_kept(patch: Patch) -> None:
    def change(real: Any, access: AccessControl, *args: Any, **kwargs: Any) -> None:
        decided = access._decided
        real(access, *args, **kwargs)
        access._decided = decided

    patch.method(AccessControl, "change", change)


@bug("security", "a DENY ACL with a prefix has no effect", WORLD)
def prefixed_denials_ignored(patch: Patch) -> None:
    def made(real: Any, authorizer: Authorizer, acls: Any, *args: Any, **kwargs: Any) -> None:
        kept = [a for a in acls if (a.pattern, a.permission) != (PatternType.PREFIXED, Permission.DENY)]
        real(authorizer, kept, *args, **kwargs)

    patch.method(Authorizer, "__init__", made)


@bug("security", "a DENY ACL for all users has no effect", WORLD)
def denials_of_all_ignored(patch: Patch) -> None:
    def made(real: Any, authorizer: Authorizer, acls: Any, *args: Any, **kwargs: Any) -> None:
        kept = [a for a in acls if (a.principal, a.permission) != ("User:*", Permission.DENY)]
        real(authorizer, kept, *args, **kwargs)

    patch.method(Authorizer, "__init__", made)


@bug("security", "removed ACLs stay in effect", WORLD)
def removed_acls_hold(patch: Patch) -> None:
    def change(real: Any, access: AccessControl, *args: Any, **kwargs: Any) -> None:
        before = access._authorizer
        real(access, *args, **kwargs)
        if kwargs.get("remove"):
            access._authorizer = before

    patch.method(AccessControl, "change", change)


@bug("security", "heartbeats do not resume after a denial is removed", WORLD)
def heartbeats_not_resumed(patch: Patch) -> None:
    patch.method(ClassicMembership, "resume_heartbeats", lambda *_: None)


@bug("security", "a client over quota gets a throttle time, but is served at once", WORLD)
def held_up_and_served(patch: Patch) -> None:
    patch.method(OpenConnections, "mute", lambda *_: None)


@bug("security", "a client over quota is muted without a throttle time in its response", WORLD)
def held_up_untold(patch: Patch) -> None:
    patch.method(Throttling, "settle", lambda real, t, to, answer, now: (real(t, to, answer, now), answer)[1])


@bug("security", "a removed user can log in", WORLD)
def removed_users_log_in(patch: Patch) -> None:
    def change(real: Any, users: ScramUsers, deleted: Any, upserted: Any) -> None:
        before = users.all()
        real(users, deleted, upserted)
        users._credentials = {**before, **users.all()}

    patch.method(ScramUsers, "change", change)
