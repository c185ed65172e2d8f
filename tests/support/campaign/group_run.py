"""One group of the campaign: do each action, wait until the group is settled, record the action."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from kohort import Admin, ConfigResource, KohortError
from support.campaign.client_process import HEARTBEAT_MS, POLL_MS, SESSION_MS, STATIC_SESSION_MS, ClientProcess
from support.campaign.clients import CONSUMER
from support.campaign.plan import CRASHES, GroupPlan, PlannedAction, Role

PARTITIONS: Final = 6
QUIET_S: Final = 1.6
"""A group without a change for this long is settled: four heartbeats."""
PAUSE_S: Final = 0.25
SETTLE_S: Final = 90.0
METADATA_S: Final = 6.0
"""Time until all clients notice a change of topics."""
REGEX_S: Final = 13.0
"""Apache Kafka resolves subscription patterns at most every ten seconds."""


@dataclass(frozen=True, slots=True)
class ExpectedCause:
    """One expected cause of an action: the true cause, its members, and its number of rebalances."""

    truth: str
    who: frozenset[str] = frozenset()
    """Client ids of the members; empty: any member."""
    least: int = 1
    most: int | None = 1


@dataclass(slots=True)
class Provoked:
    """One completed action, its time, and the expected causes."""

    group: str
    protocol: str
    action: str
    clients: tuple[str, ...]
    from_ms: int
    until_ms: int = 0
    expected: tuple[ExpectedCause, ...] = ()
    changed: bool = False
    """True if samples of the group, a few per second, saw a change."""
    flaw: str | None = None
    """Why the action cannot be judged: the group did not settle."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class GroupRun:
    """One running group: its members, its topics, its completed actions."""

    def __init__(self, plan: GroupPlan, bootstrap: str, admin: Admin) -> None:
        self.plan, self._bootstrap, self._admin = plan, bootstrap, admin
        self.noted: list[Provoked] = []
        self.topics = [f"{plan.group}-0"]
        self._read: dict[str, list[str]] = {}
        self._made = 1
        self._players: dict[str, ClientProcess] = {}
        self._old: list[ClientProcess] = []

    # Actions in general

    def begin(self) -> None:
        """Create the topic and start the first members."""
        self._admin.create_topics({self.topics[0]: PARTITIONS})
        if self.plan.protocol == CONSUMER:
            session = STATIC_SESSION_MS if self.plan.static else SESSION_MS
            options = {
                "consumer.session.timeout.ms": str(session),
                "consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
            }
            self._admin.alter_configs({ConfigResource("group", self.plan.group): options}).check()
        if not self.plan.pattern and self.plan.actions:
            self._admin.create_topics({f"{self.plan.group}-other": PARTITIONS})
        cast = self.plan.cast
        with self._noting("form", cast) as noted:
            for role in cast:
                self._start(role)
            self._settle(noted)
            noted.expected = (
                ExpectedCause("GROUP_FORMING", _ids(*cast)),
                ExpectedCause("NEW_MEMBER", _ids(*cast), least=0, most=len(cast)),
            )

    def play(self, action: PlannedAction) -> None:
        with self._noting(action.kind, action.roles) as noted:
            noted.expected = ACTIONS[action.kind](self, noted, action.roles)

    @contextlib.contextmanager
    def around(self, kind: str, expected: tuple[ExpectedCause, ...]) -> Iterator[None]:
        """Record an action on the broker that the block performs, until the group is settled."""
        with self._noting(kind, tuple(p.role for p in self._players.values())) as noted:
            noted.expected = expected
            yield
            self._settle(noted, at_least_s=SESSION_MS / 1000)

    @contextlib.contextmanager
    def _noting(self, kind: str, roles: tuple[Role, ...]) -> Iterator[Provoked]:
        clients = tuple(role.client_id for role in roles)
        noted = Provoked(self.plan.group, self.plan.protocol, kind, clients, now_ms())
        yield noted
        noted.until_ms = now_ms()
        self.noted.append(noted)

    def end(self) -> None:
        for player in [*self._players.values(), *self._old]:
            player.forget()

    # Members

    def _start(self, role: Role, strategy: str | None = None) -> ClientProcess:
        if self.plan.pattern:
            words = {"pattern": f"{self.plan.group}-"}
        else:
            words = {"topics": ",".join(self._read.get(role.key, self.topics[:1]))}
        player = ClientProcess(role, self._bootstrap, self.plan.group, strategy or self.plan.strategy, words)
        if (before := self._players.get(role.key)) is not None:
            self._old.append(before)
        self._players[role.key] = player
        return player

    def _close(self, role: Role) -> None:
        player = self._players.pop(role.key)
        player.close()
        self._old.append(player)

    def _kill(self, role: Role) -> None:
        player = self._players.pop(role.key)
        player.kill()
        self._old.append(player)

    # Settling

    def _replaced(self, noted: Provoked, role: Role, before: str | None) -> None:
        """Wait until a static member has another member id than before."""
        ends = time.monotonic() + SETTLE_S
        while (now := self._member_id(role)) is None or now == before:
            if time.monotonic() > ends:
                noted.flaw = f"{role.client_id} did not come back: {self._players[role.key].output_tail()}"
                return
            time.sleep(PAUSE_S)

    def _member_id(self, role: Role) -> str | None:
        """Return the member id of a static member."""
        about = self._admin.describe_groups([self.plan.group])[self.plan.group]
        return next((m.member_id for m in about.members if m.group_instance_id == role.instance), None)

    def _settle(self, noted: Provoked, at_least_s: float = 0.0, without: tuple[Role, ...] = ()) -> None:
        """Wait until the group is stable with exactly the expected members, and does not change any more."""
        expected_members = sorted(set(self._players) - {role.key for role in without})
        began = changed = time.monotonic()
        last: object = None
        while True:
            state, there, snapshot = self._look()
            now = time.monotonic()
            if snapshot != last:
                noted.changed = noted.changed or last is not None
                last, changed = snapshot, now
            calm = state == ("Stable" if expected_members else "Empty") and there == expected_members
            if calm and now - changed >= QUIET_S and now - began >= at_least_s:
                return
            if now - began > SETTLE_S:
                absent = [
                    f"{p.role.client_id}: {p.output_tail()}" for name, p in self._players.items() if name not in there
                ]
                noted.flaw = noted.flaw or f"not settled: {state}, {there} for {expected_members}; {absent}"
                return
            time.sleep(PAUSE_S)

    def _look(self) -> tuple[str, list[str], object]:
        """Return the group's state, its members by instance id or client id, and everything that can change."""
        try:
            found = self._admin.describe_groups([self.plan.group])
            about = found[self.plan.group]
        except KohortError as error:
            return str(error), [], None
        there = sorted(m.group_instance_id or m.client_id for m in about.members)
        snapshot = sorted((m.member_id, tuple(sorted(m.assignment)), m.member_epoch) for m in about.members)
        return about.state, there, (about.state, snapshot)

    # Actions: each returns its expected causes

    def _join(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        for role in roles:
            self._start(role)
        self._settle(noted)
        return (ExpectedCause("NEW_MEMBER", _ids(*roles), most=len(roles)),)

    def _leave(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        for role in roles:
            self._players[role.key].process.terminate()
        for role in roles:
            self._close(role)
        self._settle(noted)
        return (ExpectedCause("MEMBER_LEFT", _ids(*roles), most=len(roles)),)

    def _kill_one(self, noted: Provoked, role: Role) -> None:
        self._kill(role)
        self._settle(noted)

    def _kill_action(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        self._kill_one(noted, roles[0])
        return (ExpectedCause("SESSION_TIMEOUT.process_died", _ids(*roles)),)

    def _freeze(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        player = self._players[roles[0].key]
        player.freeze()
        self._settle(noted, without=roles)
        player.thaw()
        self._settle(noted)
        return (ExpectedCause("SESSION_TIMEOUT.frozen", _ids(*roles)), ExpectedCause("CLIENT_RESET", _ids(*roles)))

    def _stall(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        for_ms = POLL_MS + 2_500
        self._players[roles[0].key].order("stall", str(for_ms))
        self._settle(noted, at_least_s=for_ms / 1000 + 1.5)
        cause = "CLIENT_RESET" if len(self._players) > 1 else "GROUP_FORMING"  # a single member leaves an empty group
        back = ExpectedCause(cause, _ids(*roles), least=0)  # librdkafka leaves at its next poll
        return (ExpectedCause("MAX_POLL_EXCEEDED", _ids(*roles)), back)

    def _static_restart(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        before = self._member_id(roles[0])
        self._close(roles[0])
        self._start(roles[0])
        self._replaced(noted, roles[0], before)
        self._settle(noted)
        return (ExpectedCause("STATIC_RESTART", _ids(*roles)),)

    def _static_expire(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        self._close(roles[0])
        self._settle(noted)
        self._start(roles[0])
        self._settle(noted)
        return (ExpectedCause("STATIC_EXPIRED", _ids(*roles)), ExpectedCause("RESTARTED", _ids(*roles)))

    def _duplicate(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        before, member_id = self._players[roles[0].key], self._member_id(roles[0])
        self._start(roles[0])
        self._replaced(noted, roles[0], member_id)
        self._settle(noted, at_least_s=1.0)
        if before.is_running:
            before.kill()
        return (ExpectedCause("STATIC_DUPLICATE", _ids(*roles)),)

    def _assignor(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        """Restart a static member with one assignor less, then with all: the selected assignor changes twice."""
        for strategy in ("roundrobin", None):
            before = self._member_id(roles[0])
            self._close(roles[0])
            self._start(roles[0], strategy)
            self._replaced(noted, roles[0], before)
            self._settle(noted, at_least_s=1.0)
        return (ExpectedCause("STATIC_REJOIN", _ids(*roles), least=2, most=2),)

    def _subscribe(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        topics = [self.topics[0], f"{self.plan.group}-other"]
        self._read[roles[0].key] = topics
        self._players[roles[0].key].order("subscribe", ",".join(topics))
        self._settle(noted, at_least_s=2.5)
        return (ExpectedCause("SUBSCRIPTION_CHANGED", _ids(*roles)),)

    def _partitions(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        topic = self._admin.describe_topics([self.topics[0]])[self.topics[0]]
        self._admin.create_partitions({self.topics[0]: len(topic.partitions) + 1}).check()
        self._settle(noted, at_least_s=METADATA_S)
        return (ExpectedCause("PARTITIONS_CHANGED", _ids(*roles), most=None),)

    def _topic_created(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        self.topics.append(f"{self.plan.group}-{self._made}")
        self._made += 1
        self._admin.create_topics({self.topics[-1]: PARTITIONS // 2})
        self._settle(noted, at_least_s=REGEX_S if self.plan.protocol == CONSUMER else METADATA_S)
        return (ExpectedCause("TOPIC_CREATED", _ids(*roles), most=None),)

    def _topic_deleted(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        self._admin.delete_topics([self.topics.pop()]).check()
        self._settle(noted, at_least_s=REGEX_S if self.plan.protocol == CONSUMER else METADATA_S)
        return (ExpectedCause("TOPIC_DELETED", _ids(*roles), most=None),)

    def _remove(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        """Remove a member as an administrator; the client joins again by itself."""
        about = self._admin.describe_groups([self.plan.group])[self.plan.group]
        if roles[0].instance is not None:
            self._admin.remove_group_members(self.plan.group, instance_ids=[roles[0].instance]).check()
        else:
            ids = [m.member_id for m in about.members if m.client_id == roles[0].client_id]
            self._admin.remove_group_members(self.plan.group, ids).check()
        self._settle(noted, at_least_s=2.0)
        back = ExpectedCause("CLIENT_RESET", _ids(*roles), least=0)  # the client may join again within the same round
        return (ExpectedCause("ADMIN_REMOVED", _ids(*roles)), back)

    def _enforce(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        self._players[roles[0].key].order("enforce", "prices", "were", "loaded")
        self._settle(noted, at_least_s=2.0)
        return (ExpectedCause("USER_ENFORCED", _ids(*roles)),)

    def _rolling_restart(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        expected = []
        for role in roles:
            self._close(role)
            self._settle(noted)
            self._start(role)
            self._settle(noted)
            expected += [ExpectedCause("MEMBER_LEFT", _ids(role)), ExpectedCause("NEW_MEMBER", _ids(role))]
        return tuple(expected)

    def _crash_loop(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        expected = []
        for n in range(CRASHES):
            self._start(roles[0])
            self._settle(noted)
            self._kill_one(noted, roles[0])
            expected += [
                ExpectedCause("RESTARTED" if n else "NEW_MEMBER", _ids(*roles)),
                ExpectedCause("SESSION_TIMEOUT.process_died", _ids(*roles)),
            ]
        return tuple(expected)

    def _reform(self, noted: Provoked, roles: tuple[Role, ...]) -> tuple[ExpectedCause, ...]:
        """Stop all members, delete the group, and start all members again."""
        for role in roles:
            self._players[role.key].process.terminate()
        for role in roles:
            self._close(role)
        self._settle(noted)
        self._admin.delete_groups([self.plan.group]).check()
        for role in roles:
            self._start(role)
        self._settle(noted)
        return (
            ExpectedCause("MEMBER_LEFT", _ids(*roles), most=len(roles)),
            ExpectedCause("GROUP_DELETED"),
            ExpectedCause("GROUP_FORMING", _ids(*roles)),
            ExpectedCause("NEW_MEMBER", _ids(*roles), least=0, most=len(roles)),
        )


def _ids(*roles: Role) -> frozenset[str]:
    return frozenset(role.client_id for role in roles)


Do = Callable[[GroupRun, Provoked, tuple[Role, ...]], tuple[ExpectedCause, ...]]
ACTIONS: Final[dict[str, Do]] = {
    "join": GroupRun._join,
    "scale_out": GroupRun._join,
    "leave": GroupRun._leave,
    "scale_in": GroupRun._leave,
    "kill": GroupRun._kill_action,
    "freeze": GroupRun._freeze,
    "stall": GroupRun._stall,
    "static_restart": GroupRun._static_restart,
    "static_expire": GroupRun._static_expire,
    "duplicate": GroupRun._duplicate,
    "assignor": GroupRun._assignor,
    "subscribe": GroupRun._subscribe,
    "partitions": GroupRun._partitions,
    "topic_created": GroupRun._topic_created,
    "topic_deleted": GroupRun._topic_deleted,
    "remove": GroupRun._remove,
    "enforce": GroupRun._enforce,
    "rolling_restart": GroupRun._rolling_restart,
    "crash_loop": GroupRun._crash_loop,
    "reform": GroupRun._reform,
}
"""Implementation of each kind of action."""
