"""World ``modern``: consumer groups (KIP-848) and online conversions, on three nodes with moving leaders.

By seed the members use one protocol, the other, or both, and change it. The world is separate, so that histories of
other worlds' seeds stay the same.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kohort.client.consumer import TopicsOrPattern
from kohort.config.client import AdminConfig, ConsumerConfig
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.outcome import TimerKind
from kohort.model import SubscriptionPattern
from kohort_lab.sim.actors.admins import AdminActor
from kohort_lab.sim.actors.consumers import ConsumerActor
from kohort_lab.sim.actors.either_protocol import CLASSIC, CONSUMER, EitherProtocol
from kohort_lab.sim.actors.faults import LEAVE_ENDS_MS, OwnFaults
from kohort_lab.sim.actors.forged_heartbeats import ForgedHeartbeats, HeartbeatRecorder
from kohort_lab.sim.checks.balance import check_balance
from kohort_lab.sim.checks.calm import check_settled
from kohort_lab.sim.checks.epoch_commits import EpochCommits
from kohort_lab.sim.checks.epochs import Epochs
from kohort_lab.sim.checks.life import GroupLife
from kohort_lab.sim.checks.modern_changes import GroupChanges
from kohort_lab.sim.checks.modern_group import ModernGroupHolds, check_modern_balance, why_not_reconciled
from kohort_lab.sim.checks.modern_owners import ModernOwners
from kohort_lab.sim.checks.revocations import Revocations
from kohort_lab.sim.checks.watcher import Watcher
from kohort_lab.sim.swarm import Plan
from kohort_lab.sim.world import START_MS
from kohort_lab.sim.worlds.three_nodes import GROUP, ThreeNodes, plan_of_moves

ADMIN: Final = "admin"
"""Client that also sends forged requests."""
TOPICS_PATTERN: Final = "t[0-9]+"
"""Pattern that matches every topic of a plan."""
STALLS_LONGER_MS: Final = 6_000
"""Largest stall of a listener beyond the rebalance timeout, in ms."""
REGEX_SETTLES_MS: Final = 20_000
"""Additional time to settle with subscription patterns, which are resolved every ten seconds, in ms."""


class ModernOptions(NamedTuple):
    """Random options of this world."""

    protocols: str
    """``consumer``, ``classic``, or ``mixed``: by member."""
    converts: bool
    """True if members change their protocol."""
    moves: bool
    """True if leaders move and nodes stop."""
    strangers: bool
    grows: bool
    """True if topics get more partitions."""
    regex: bool
    interval_ms: int
    """group.consumer.assignment.interval.ms"""
    assignor: str | None
    stalls: bool
    """True if listeners stall beyond the rebalance timeout."""
    repeats: bool
    """True for replayed heartbeats."""
    steps_out: bool
    """True if static members leave temporarily."""


def options_of(plan: Plan) -> ModernOptions:
    """Draw the options of a plan. Later additions use separate random numbers."""
    rng = random.Random(f"modern {plan.seed}")
    later = random.Random(f"modern again {plan.seed}")
    protocols = rng.choice([CONSUMER, CONSUMER, "mixed", "mixed", CLASSIC])
    strikes = bool(plan.faults)
    converts = protocols == CLASSIC or (strikes and rng.random() < 0.4)
    return ModernOptions(
        protocols=protocols,
        converts=converts,
        moves=strikes and rng.random() < 0.6,
        strangers=strikes and rng.random() < 0.3,
        # Partitions added during the absence of a static leader stay unassigned, unless the coordinator assigns.
        grows=rng.random() < 0.4 and (not plan.static or (protocols == CONSUMER and not converts)),
        regex=rng.random() < 0.25,
        interval_ms=rng.choice([0, 0, 1_000, 1_000, 5_000]),
        assignor=rng.choice([None, None, "uniform", "range"]),
        stalls=later.random() < 0.3 and strikes,
        repeats=later.random() < 0.3 and strikes,
        steps_out=later.random() < 0.6 and strikes,
    )


def plan_of_modern(seed: int) -> Plan:
    """Return the plan of a seed: as in ``three_nodes``, with more static members in KIP-848 groups."""
    plan = plan_of_moves(seed)
    options = options_of(plan)
    more = random.Random(f"modern static {seed}").random() < 0.25
    return replace(plan, static=plan.static or (more and options.protocols == CONSUMER and not options.converts))


class ModernGroups(ThreeNodes):
    """Group on three nodes, with members of either protocol."""

    def __init__(self, plan: Plan) -> None:
        self.options = options_of(plan)
        self.overheard = HeartbeatRecorder(ADMIN)
        self._looked_at: tuple[ModernGroup | None] | None = None
        super().__init__(plan)
        self.admin = AdminActor(
            self.context, AdminConfig(bootstrap_servers=self.servers), GROUP, widens=self.options.grows
        )
        self.context.checks.add(self.overheard)
        self.strangers = ForgedHeartbeats(self.admin, GROUP, self.consumers, self.overheard, min(plan.topics))

    def broker_options(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "group_consumer_session_timeout_ms": plan.session_timeout_ms,
            "group_consumer_min_session_timeout_ms": 1_000,
            "group_consumer_heartbeat_interval_ms": plan.heartbeat_interval_ms,
            "group_consumer_min_heartbeat_interval_ms": 100,
            "group_consumer_assignment_interval_ms": self.options.interval_ms,
        }

    def consumer(self, name: str, instance_id: str) -> EitherProtocol:
        plan, options = self.plan, self.options
        configs = {
            CLASSIC: self.consumer_config(
                name, instance_id, auto_commit_interval_ms=plan.auto_commit_interval_ms, metadata_max_age_ms=10_000
            ),
            CONSUMER: self._modern_config(name, instance_id),
        }
        topics = list(plan.topics)
        wants: dict[str, TopicsOrPattern] = {
            CLASSIC: topics,
            CONSUMER: SubscriptionPattern(TOPICS_PATTERN) if options.regex else topics,
        }
        mixed = random.Random(f"protocol {plan.seed} {name}").choice([CLASSIC, CONSUMER])
        protocol = mixed if options.protocols == "mixed" else options.protocols
        made = EitherProtocol(name, self.context, configs, wants, protocol)
        made.pace = self.pace()
        return made

    def _modern_config(self, name: str, instance_id: str) -> ConsumerConfig:
        plan = self.plan
        return ConsumerConfig(
            bootstrap_servers=self.servers,
            client_id=name,
            group_id=self.group_id,
            group_instance_id=instance_id if plan.static else None,
            group_protocol=CONSUMER,
            group_remote_assignor=self.options.assignor,
            fetch_max_wait_ms=plan.fetch_wait_ms,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=plan.auto_commit_interval_ms,
            metadata_max_age_ms=10_000,
            max_poll_interval_ms=plan.max_poll_interval_ms,
            request_timeout_ms=plan.request_timeout_ms,
        )

    def checks_of_groups(self, life: GroupLife) -> list[Watcher]:
        forged = self.overheard.forged
        self._life, self._changes = life, GroupChanges()
        self.owners = ModernOwners(self.modern_group, self.topics, lambda: life.stretches, forged)
        self.holds = ModernGroupHolds(self.modern_group, lambda: life.stretches, self.options.interval_ms, forged)
        self.revocations = Revocations(self.modern_group)
        self.epochs = Epochs(self.modern_group, lambda: life.stretches, ADMIN)
        self.commits = EpochCommits(GROUP, self.modern_group, self.topic_name)
        return [self.owners, self.holds, self.epochs, self.commits]

    def own_faults(self) -> OwnFaults:
        moves = super().own_faults().always
        options = self.options
        always = dict(moves) if options.moves else {}
        if options.converts:
            always["convert"] = self._convert
        if options.grows:
            always["admin"] = lambda _rng: self.admin.act(self.topics_now())
        if options.strangers:
            always["claim"] = self.strangers.claim
            always["evict"] = self.strangers.evict
        if options.repeats:
            always["repeat"] = self.strangers.repeat
        if options.stalls:
            always["stall"] = self._stall
        if self.plan.static and options.steps_out:
            always["step out"] = self._step_out
        return OwnFaults(always=always)

    def _convert(self, rng: random.Random) -> None:
        """Restart a member with the other protocol."""
        victim = rng.choice(self.consumers)
        assert isinstance(victim, EitherProtocol)
        victim.convert()
        if rng.random() < 0.5:
            victim.leave()
            self.world.after(6_000, victim.start)
        else:
            victim.kill("converted")
            victim.restart_later()

    def _stall(self, rng: random.Random) -> None:
        """Stall listeners in the next revocation, maybe beyond the rebalance timeout.

        One member leaves and returns, so that the others revoke partitions.
        """
        limit_ms = self.plan.max_poll_interval_ms
        until_ms = START_MS + self.plan.faults_ms
        for victim in self.consumers:
            assert isinstance(victim, EitherProtocol)
            victim.stall(until_ms, rng.choice([limit_ms // 2, limit_ms + rng.randint(500, STALLS_LONGER_MS)]))
        one = rng.choice(self.consumers)
        one.leave()
        self.world.after(LEAVE_ENDS_MS, one.start)

    def _step_out(self, rng: random.Random) -> None:
        """Make a static member leave temporarily; it returns as another process, maybe after its session timeout."""
        victim = rng.choice(self.consumers)
        victim.leave()
        self.world.after(rng.randint(200, self.plan.session_timeout_ms + 2_000), victim.start)
        self.world.after(LEAVE_ENDS_MS, victim.start)

    def modern_group(self) -> ModernGroup | None:
        """Return the group; None unless it is a coordinated consumer group."""
        return self._find_group() if self._looked_at is None else self._looked_at[0]

    def _find_group(self) -> ModernGroup | None:
        broker = self.coordinator()
        groups = broker.state.coordinator.groups_in_partition_of(GROUP) if broker is not None else None
        return None if groups is None else groups.consumer.get(GROUP)

    def check(self) -> None:
        self._looked_at = (self._find_group(),)  # cached: no change happens while the checks run
        try:
            super().check()
            self._check_group(self._looked_at[0])
        finally:
            self._looked_at = None

    def _check_group(self, group: ModernGroup | None) -> None:
        """Run the checks of the group if it changed or a time limit is pending."""
        moved = self._changes.moved(group, self._life.stretches)
        self.owners.look(moved=moved)
        if moved:
            self.holds.check()
            self.commits.check()
        if moved or self.revocations.waits:
            cluster = self.cluster
            works = not cluster.is_frozen and not cluster.disk.weather.refuse
            self.revocations.check(cluster.now_ms, self.world.now_ms, works=works)

    def topics_now(self) -> dict[str, int]:
        topics = self.topics()
        found = {name: topics.get(name) if topics is not None else None for name in self.plan.topics}
        return {name: len(t.partitions) if t is not None else self.plan.topics[name] for name, t in found.items()}

    def session_kind(self) -> TimerKind:
        return "session" if self.modern_group() is None else "member_session"

    def idle_timers(self) -> set[tuple[TimerKind, str]]:
        return {("regex", "")}

    def why_not_settled(self) -> str | None:
        if not self.admin.done:
            return "the administrator waits"
        group = self.modern_group()
        if (why := super().why_not_settled()) is not None or group is None:
            return why
        return why_not_reconciled(group)

    @property
    def settles_within_ms(self) -> int:
        more_ms = 3 * self.options.interval_ms + (REGEX_SETTLES_MS if self.options.regex else 0)
        return super().settles_within_ms + more_ms

    def settle_within(self, bound_ms: int) -> None:
        """Run until settled, or fail.

        As in Kafka, a member whose assignment went to a forged request stays unaware of it; an operator restarts the
        member.
        """
        self.run_until_settled(bound_ms)
        if self.why_not_settled() is not None and (untold := self._untold()):
            self.history.add("world", "restarts by hand", ", ".join(consumer.name for consumer in untold))
            for consumer in untold:
                consumer.kill("restarted by hand")
                consumer.restart_later()
            self.run_until_settled(bound_ms)
        check_settled(self.why_not_settled(), bound_ms)

    def _untold(self) -> list[ConsumerActor]:
        """Return members affected by forged requests that do not own their assignment."""
        group = self.modern_group()
        members = {} if group is None else group.members
        found = [c for c in self.consumers if c.member_id in self.overheard.forged and c.member_id in members]
        return [c for c in found if len(list(members[c.member_id].current.partitions())) != len(c.assigned)]

    def check_end(self) -> None:
        super().check_end()
        if not (self.plan.faults or self.options.converts):
            self.epochs.check_no_member_fenced()
        owned = {c.name: sorted(c.assigned) for c in self.consumers}
        group, machine = self.modern_group(), self.consumers[0].machine
        if group is not None:
            check_modern_balance(owned, group, len(self.plan.topics), self.owners.converted_at)
        else:
            assert machine is not None
            assignor = machine.group.membership.generation.protocol_name or ""
            check_balance(owned, assignor, len(self.plan.topics))


def run_modern(seed: int) -> ModernGroups:
    """Run one seed. Raises CheckFailed, or a machine's error."""
    run = ModernGroups(plan_of_modern(seed))
    run.go()
    return run
