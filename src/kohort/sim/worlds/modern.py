"""Groups that their coordinator assigns (KIP-848), on three nodes whose leaders move: beside those that are converted.

By seed the members speak one protocol, or the other, or both, and change it while they run. A world beside the others,
so that the histories of seeds there stay what they are.
"""

from __future__ import annotations

import random
from typing import Any, Final, NamedTuple

from kohort.client.consumer import Wanted
from kohort.config.client import AdminConfig, ConsumerConfig
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.outcome import TimerKind
from kohort.model import SubscriptionPattern, TopicPartition
from kohort.sim.actors.admins import AdminActor, Make
from kohort.sim.actors.either_protocol import CLASSIC, CONSUMER, EitherProtocol
from kohort.sim.actors.faults import OwnFaults
from kohort.sim.actors.modern_strangers import FalseHeartbeat, modern_heartbeat_as
from kohort.sim.actors.strangers import Guise, commit_as
from kohort.sim.checks.balance import check_balance
from kohort.sim.checks.epoch_commits import EpochCommits
from kohort.sim.checks.epochs import Epochs
from kohort.sim.checks.life import GroupLife
from kohort.sim.checks.modern_group import ModernGroupHolds, check_modern_balance, why_not_reconciled
from kohort.sim.checks.modern_owners import ModernOwners
from kohort.sim.checks.watcher import Watcher
from kohort.sim.swarm import Plan
from kohort.sim.worlds.three_nodes import GROUP, ThreeNodes, plan_of_moves
from kohort.wire.messages.group_consumer import LEAVING_EPOCH

TOPICS_PATTERN: Final = "t[0-9]+"
"""Matches every topic of a plan."""
REGEX_SETTLES_MS: Final = 20_000
"""How much longer it may take where members subscribe by an expression: it is resolved again every ten seconds."""


class ModernOptions(NamedTuple):
    """What a seed draws for this world beside its plan."""

    protocols: str
    """``consumer``, ``classic``, or ``mixed``: by member."""
    converts: bool
    """Whether members change their protocol while they run."""
    moves: bool
    """Whether leaders move and nodes stop."""
    strangers: bool
    grows: bool
    """Whether topics get more partitions."""
    regex: bool
    interval_ms: int
    """group.consumer.assignment.interval.ms"""
    assignor: str | None


def options_of(plan: Plan) -> ModernOptions:
    """Draw what a seed stands for in this world."""
    rng = random.Random(f"modern {plan.seed}")
    protocols = rng.choice([CONSUMER, CONSUMER, "mixed", "mixed", CLASSIC])
    strikes = bool(plan.faults)
    return ModernOptions(
        protocols=protocols,
        converts=protocols == CLASSIC or (strikes and rng.random() < 0.4),
        moves=strikes and rng.random() < 0.6,
        strangers=strikes and rng.random() < 0.3,
        grows=rng.random() < 0.4 and not plan.static,
        regex=rng.random() < 0.25,
        interval_ms=rng.choice([0, 0, 1_000, 1_000, 5_000]),
        assignor=rng.choice([None, None, "uniform", "range"]),
    )


class ModernGroups(ThreeNodes):
    """A group on three nodes, of members of either protocol."""

    def __init__(self, plan: Plan) -> None:
        self.options = options_of(plan)
        super().__init__(plan)
        self.admin = AdminActor(
            self.stage, AdminConfig(bootstrap_servers=self.servers), GROUP, widens=self.options.grows
        )

    # ------------------------------------------------------------ what is simulated

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
        wants: dict[str, Wanted] = {
            CLASSIC: topics,
            CONSUMER: SubscriptionPattern(TOPICS_PATTERN) if options.regex else topics,
        }
        mixed = random.Random(f"protocol {plan.seed} {name}").choice([CLASSIC, CONSUMER])
        protocol = mixed if options.protocols == "mixed" else options.protocols
        made = EitherProtocol(name, self.stage, configs, wants, protocol)
        made.pace.most_records = plan.poll_records
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
        self.owners = ModernOwners(self.modern_group, self.topics)
        self.holds = ModernGroupHolds(self.modern_group, lambda: life.stretches, self.options.interval_ms)
        self.epochs = Epochs(GROUP, lambda: life.stretches, "admin")
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
            always["claim"] = self._claim
            always["evict"] = self._evict
        return OwnFaults(always=always)

    # ------------------------------------------------------------ what strikes

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

    def _claim(self, rng: random.Random) -> None:
        """Speak for a member with an epoch that it was never told, or for nobody."""
        victim = rng.choice(self.consumers)
        epoch = victim.generation_id + rng.choice([1, 7]) if victim.generation_id > 0 else 3
        claim = FalseHeartbeat(victim.member_id or "nobody", epoch, victim.instance_id)
        nobody = FalseHeartbeat("nobody", rng.choice([1, -1]))
        partition = TopicPartition(min(self.plan.topics), 0)
        choices: list[tuple[str, Make]] = [
            (f"claims epoch {epoch} of {victim.name}", lambda m: modern_heartbeat_as(m, GROUP, claim)),
            ("claims to be nobody", lambda m: modern_heartbeat_as(m, GROUP, nobody)),
            ("commits from outside", lambda m: commit_as(m, GROUP, Guise(), partition, 0)),
            ("commits as nobody", lambda m: commit_as(m, GROUP, Guise("nobody", None, 1), partition, 0)),
            ("commits too late", lambda m: commit_as(m, GROUP, Guise(claim.member_id, None, epoch), partition, 0)),
        ]
        self.admin.do(*rng.choice(choices))

    def _evict(self, rng: random.Random) -> None:
        """Take a member out."""
        victim = rng.choice(self.consumers)
        if victim.member_id:
            claim = FalseHeartbeat(victim.member_id, LEAVING_EPOCH, victim.instance_id)
            self.admin.do(f"takes out {victim.name}", lambda m: modern_heartbeat_as(m, GROUP, claim))

    # ------------------------------------------------------------ what must hold

    def modern_group(self) -> ModernGroup | None:
        """Return the group as it is coordinated now; None where it is not, or is a classic one."""
        broker = self.coordinator()
        groups = broker.state.coordinator.groups_beside(GROUP) if broker is not None else None
        return None if groups is None else groups.consumer.get(GROUP)

    def check(self) -> None:
        super().check()
        self.owners.check()
        self.holds.check()

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

    def check_end(self) -> None:
        super().check_end()
        if not (self.plan.faults or self.options.converts):
            self.epochs.check_nobody_fenced()
        owned = {c.name: sorted(c.assigned) for c in self.consumers}
        group, machine = self.modern_group(), self.consumers[0].machine
        if group is not None:
            check_modern_balance(owned, group, len(self.plan.topics))
        else:
            assert machine is not None
            assignor = machine.group.membership.generation.protocol_name or ""
            check_balance(owned, assignor, len(self.plan.topics))


def run_modern(seed: int) -> ModernGroups:
    """Run one seed. Raises CheckFailed, or whatever a machine raises."""
    run = ModernGroups(plan_of_moves(seed))
    run.go()
    return run
