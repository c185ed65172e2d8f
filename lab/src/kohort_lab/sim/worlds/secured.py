"""World ``secured``: the group of ``one_broker`` with logins, ACLs, quotas and users that change.

It is separate, so that histories of other worlds' seeds stay the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from kohort.broker.cluster.security_store import SecurityStore, UserAndMechanism
from kohort.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from kohort.security.sasl.scram import credential_of
from kohort_lab.sim.actors.faults import Faults, OwnFaults
from kohort_lab.sim.actors.security_admin import (
    EVERYBODY,
    ITERATIONS,
    MECHANISM,
    SecurityAdmin,
    SecurityTargets,
    password_of,
    salted,
)
from kohort_lab.sim.checks.denials import DenialsHold, Right
from kohort_lab.sim.checks.logins import KnownUsers
from kohort_lab.sim.checks.throttles import Throttles
from kohort_lab.sim.swarm import FAULTS_OF_STRANGERS, Plan, plan_of
from kohort_lab.sim.worlds.one_broker import BROKER, GROUP, OneBroker

PRODUCER: Final = "producer"
ADMIN: Final = "admin"
DOUBLE: Final = "double"
STRIKES: Final = frozenset({"forbid", "limit", "change user"})
OMITTED_FAULTS: Final = frozenset({"clock jump", *FAULTS_OF_STRANGERS})
"""Faults left out: forged requests are allowed for this administrator."""
UNDONE_MS: Final = 60_000
"""Time to undo all security changes after the faults, in ms."""


def plan_of_secured(seed: int) -> Plan:
    plan = plan_of(seed)
    # As in Kafka, a static member that dies before a revocation and returns leaves the partition without owner.
    static = plan.static and "cooperative-sticky" not in plan.assignors
    return replace(plan, faults=plan.faults - OMITTED_FAULTS | STRIKES, static=static, forgets=False)


class SecuredGroup(OneBroker):
    """Group on one broker with an authorizer, users and quotas."""

    def __init__(self, plan: Plan) -> None:
        members = [f"c{number}" for number in range(plan.consumers)]
        users = {PRODUCER: PRODUCER, **{name: name for name in members}, DOUBLE: members[0]}
        of_members: list[Right] = [("READ", "GROUP", GROUP), *(("READ", "TOPIC", topic) for topic in plan.topics)]
        of_producer: list[Right] = [("WRITE", "TOPIC", topic) for topic in plan.topics]
        self.user_names = [*members, PRODUCER, ADMIN]
        self.throttles = Throttles()
        # ``super().__init__`` registers it for responses.
        super().__init__(plan, also=[self.throttles])
        rights = {PRODUCER: of_producer, **dict.fromkeys(members, of_members)}
        self.denials = DenialsHold(self.world, GROUP, users, rights)
        self.known_users = KnownUsers(self.world, users)
        self.throttles.now_ms = lambda: self.broker.now_ms
        self.denials.security = self.known_users.security = self._security
        self.denials.topics = self.topics
        for check in (self.denials, self.known_users):
            self.context.checks.add(check)
        for consumer in (*self.consumers, self.double):
            consumer.pace.polls_on = True
        # As in Kafka, a static leader does not learn that a topic became visible again (KIP-814).
        targets = SecurityTargets(PRODUCER, members, ADMIN, GROUP, sorted(plan.topics), hides=not plan.static)
        self.security_admin = SecurityAdmin(self.context, self.admin, targets, self._security)

    def _security(self) -> SecurityStore | None:
        broker = self.broker.broker
        return broker.state.cluster.security if broker is not None else None

    def login_of(self, name: str) -> dict[str, Any]:
        user = "c0" if name == DOUBLE else name
        return {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": MECHANISM,
            "sasl_username": user,
            "sasl_password": password_of(user),
        }

    def listener_options(self) -> dict[str, Any]:
        return {
            "listeners": [f"SASL_PLAINTEXT://{BROKER[0]}:{BROKER[1]}"],
            "sasl_enabled_mechanisms": [MECHANISM],
            "authorizer_class_name": "StandardAuthorizer",
            "super_users": f"User:{ADMIN}",
        }

    def start(self, more_topics: Any = None) -> None:
        super().start(more_topics)
        state = self.broker.brokers[0].state
        state.logins.users.change((), {UserAndMechanism(u, MECHANISM): _credential(u) for u in self.user_names})
        assert state.access is not None
        state.access.change(add=[*_allowed()])

    def own_faults(self) -> OwnFaults:
        keeper = self.security_admin
        strikes = {"forbid": keeper.forbid, "limit": keeper.limit, "change user": keeper.change_user}
        return OwnFaults({**super().own_faults().without_user, **strikes})

    def endure(self, faults: Faults) -> None:
        super().endure(faults)
        self.security_admin.calm()

    @property
    def settles_within_ms(self) -> int:
        return super().settles_within_ms + UNDONE_MS + self.throttles.longest_remaining_ms

    def check(self) -> None:
        super().check()
        self.known_users.look()
        self.denials.check_persisted()
        if (broker := self.broker.broker) is not None:
            self.throttles.check_reported(sum(broker.state.quotas.throttled_ms.values()))

    def why_not_settled(self) -> str | None:
        if (why := self.security_admin.why_not_undone()) is not None:
            return why
        if self.throttles.longest_remaining_ms:
            return "somebody is held up by a quota"
        contact_ms, answered_ms = self.silence.contact_ms, self.known_users.answered_ms
        for consumer in self.consumers:
            if answered_ms.get(consumer.name, 0) > contact_ms.get(consumer.name, 0):
                return f"{consumer.name} has tried to log in, and is not heard of since"
        return super().why_not_settled()


def _allowed() -> list[Acl]:
    """Return the ACLs of all users and of the producer."""
    some = ((ResourceType.GROUP, "*", EVERYBODY, Operation.READ), (ResourceType.TOPIC, "*", EVERYBODY, Operation.READ))
    written = (ResourceType.TOPIC, "t", f"User:{PRODUCER}", Operation.WRITE)
    made = [Acl(kind, name, PatternType.LITERAL, who, "*", what, Permission.ALLOW) for kind, name, who, what in some]
    kind, name, who, what = written
    return [*made, Acl(kind, name, PatternType.PREFIXED, who, "*", what, Permission.ALLOW)]


def _credential(user: str) -> Any:
    made = salted(user, 0)
    return credential_of("sha256", made.salt, ITERATIONS, made.salted)


def run_secured(seed: int) -> SecuredGroup:
    """Run one seed. Raises CheckFailed, or a machine's error."""
    run = SecuredGroup(plan_of_secured(seed))
    run.go()
    return run
