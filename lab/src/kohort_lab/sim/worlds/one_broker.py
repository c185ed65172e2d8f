"""World ``group``: one seed with faults, calm and a failover, with checks after every event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kohort.broker.broker import Broker
from kohort.client.requests.io import Tick
from kohort.config.broker import BrokerConfig
from kohort.config.client import AdminConfig, ProducerConfig
from kohort.coordinator.outcome import TimerKey
from kohort.model import TopicPartition
from kohort_lab.sim.actors.admins import AdminActor, Make
from kohort_lab.sim.actors.brokers import BrokerActor
from kohort_lab.sim.actors.clearing_up import clear_up
from kohort_lab.sim.actors.clients import ProducerActor
from kohort_lab.sim.actors.faults import Faults, OwnFaults, Victims
from kohort_lab.sim.checks.balance import check_balance
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.calm import check_delivered, check_nothing_moved, check_settled, standing, why_not_settled
from kohort_lab.sim.checks.fencing import Fencing
from kohort_lab.sim.checks.group_invariants import check_all
from kohort_lab.sim.checks.handed_out import HandedOut
from kohort_lab.sim.checks.joiners import Joiners
from kohort_lab.sim.checks.leaving import Leaving
from kohort_lab.sim.checks.life import GroupLife
from kohort_lab.sim.checks.memory import check_nothing_remains
from kohort_lab.sim.checks.obedience import Obedience
from kohort_lab.sim.checks.ownership import OneOwner
from kohort_lab.sim.checks.parked import check_parked
from kohort_lab.sim.checks.polls import Polls
from kohort_lab.sim.checks.silence import Silence
from kohort_lab.sim.checks.strangers import Strangers
from kohort_lab.sim.checks.unanswered import check_answered
from kohort_lab.sim.checks.watcher import Watcher
from kohort_lab.sim.swarm import Plan, plan_of
from kohort_lab.sim.verdict import Verdict, verdict_of
from kohort_lab.sim.worlds.simulation import Simulation

GROUP = "g"
BROKER = ("10.1.0.1", 9092)
SERVERS = [f"{BROKER[0]}:{BROKER[1]}"]
QUIET_MS = 20_000
MORE_RECORDS = 5
CHECK_EVERY = 64
PARKED_EVERY = 16
CLEARING_UP_MS = 30_000
FAREWELL_MS = 10_000


class OneBroker(Simulation):
    """Group on one broker, with an administrator that also forges requests.

    ``also``: watchers that receive every API decoded. ``script``: called after the start, to schedule a scenario.
    """

    group_id = GROUP
    servers = SERVERS

    def __init__(
        self, plan: Plan, also: Sequence[Watcher] = (), script: Callable[[OneBroker], None] | None = None
    ) -> None:
        super().__init__(plan, decode_all=bool(also))
        context = self.context
        self.process = self.broker = BrokerActor(context, self._broker_config())
        producing = ProducerConfig(
            bootstrap_servers=SERVERS, request_timeout_ms=plan.request_timeout_ms, **self.login_of("producer")
        )
        self.producer = ProducerActor("producer", context, producing)
        self.members = self.consumers = [self.consumer(f"c{i}", f"i{i}") for i in range(plan.consumers)]
        self.double = self.consumer("double", "i0")
        # As in Kafka, a static leader does not learn of partitions added while it was away (KIP-814).
        administering = AdminConfig(bootstrap_servers=SERVERS, **self.login_of("admin"))
        self.admin = AdminActor(context, administering, GROUP, widens=not plan.static)
        life = GroupLife(GROUP, self.topics)
        self.handed_out = HandedOut(GROUP, self.topic_name, life, once=not plan.faults and script is None)
        self.silence = Silence()
        for check in (
            life,
            OneOwner(life),
            Fencing(lambda: self.broker.disk.refusals, life),
            Leaving(self._timers_of),
            self.handed_out,
            self.durability,
            self.silence,
            Obedience(self.admin.name),
            Joiners(life),
            Strangers(self._timers_of),
            Polls({consumer.name: consumer for consumer in (*self.consumers, self.double)}),
            *also,
        ):
            context.checks.add(check)
        self._script = script

    def _broker_config(self) -> BrokerConfig:
        return self.broker_config(
            **self.listener_options(),
            offsets_retention_minutes=1 if self.plan.forgets else 10_080,
            offsets_retention_check_interval_ms=self.plan.sweep_ms,
        )

    def listener_options(self) -> dict[str, Any]:
        """Return the broker's listener and authorization options."""
        return {"listen_host": BROKER[0], "listen_port": BROKER[1]}

    def _timers_of(self, group_id: str) -> list[TimerKey]:
        broker = self.broker.broker
        return broker.state.coordinator.timers_of(group_id) if broker is not None else []

    def go(self) -> None:
        """Run to the end. Raises CheckFailed, InvariantBroken, Storm, or a machine's error."""
        plan = self.plan
        self.start()
        if self._script is not None:
            self._script(self)
        self.endure(Faults(self.context, plan, Victims(self.broker, self.consumers, self.double), self.own_faults()))
        bound_ms = self.settles_within_ms
        self.run_until_settled(bound_ms)
        if plan.may_orphan and self._orphans():
            self._rebalance_by_hand()
            self.run_until_settled(bound_ms)
        check_settled(self.why_not_settled(), bound_ms)
        self._check_end()
        self._check_balance()
        self._quiet_failover()
        self._farewell()
        clear_up(self._administer, GROUP, min(plan.topics), self._restart)
        self.durability.check_end(self._standing_broker(), self.producer.acknowledged)

    def own_faults(self) -> OwnFaults:
        """Return the faults of this world only."""
        return OwnFaults(
            {"admin": lambda: self.admin.act(self._topics)},
            {"impostor": lambda c: self.admin.pretend(c, min(self.plan.topics)), "kick": self.admin.kick},
        )

    def _orphans(self) -> set[TopicPartition]:
        """Return the partitions without owner."""
        return self._partitions - {p for consumer in self.consumers for p in consumer.assigned}

    def _rebalance_by_hand(self) -> None:
        """Trigger a rebalance, as an operator must do with Kafka's clients, too."""
        self.history.add("world", "rebalanced by hand", ", ".join(map(str, sorted(self._orphans()))))
        for consumer in self.consumers:
            if consumer.machine is not None:
                consumer.machine.enforce_rebalance("a partition is nobody's")
                consumer.step(Tick())

    def check(self) -> None:
        """Check the coordinator's invariants: one group's after every event, all of them sometimes."""
        broker = self.broker.broker
        if broker is not None and not self.world.events % PARKED_EVERY and not self.broker.is_frozen:
            check_parked(broker)
        if self.world.events % CHECK_EVERY or broker is None:
            return
        now_ms = self.broker.now_ms
        wake_at_ms = broker.state.coordinator.wake_at_ms
        if wake_at_ms is None or wake_at_ms >= now_ms:
            check_all(broker.state.coordinator, now_ms)

    @property
    def _partitions(self) -> set[TopicPartition]:
        return {TopicPartition(t, p) for t, n in self._topics.items() for p in range(n)}

    @property
    def _topics(self) -> dict[str, int]:
        """Number of partitions by topic, including added ones."""
        topics = self.topics()
        found = {name: topics.get(name) if topics is not None else None for name in self.plan.topics}
        return {name: len(t.partitions) if t is not None else self.plan.topics[name] for name, t in found.items()}

    def why_not_settled(self) -> str | None:
        broker = self.broker.broker
        if broker is None:
            return "the broker is down"
        if self.broker.is_frozen:
            return "the broker is frozen"
        if not self.producer.done:
            return "records are on their way"
        if not self.admin.done:
            return "the administrator waits"
        counted = {(key.kind, key.member_id) for key in self._timers_of(GROUP)}
        if counted != {("session", consumer.member_id) for consumer in self.consumers}:
            return f"the group waits for {sorted(counted)}"
        logs = {p: broker.state.topics.log(*p) for p in self._partitions}
        ends = {p: log.log_end_offset for p, log in logs.items() if log is not None}
        return why_not_settled(self.consumers, self._partitions, ends, self.broker.committed(GROUP))

    def _standing_broker(self) -> Broker:
        assert self.broker.broker is not None, "nothing strikes it any more"
        return self.broker.broker

    def _check_end(self) -> None:
        self.durability.check_end(self._standing_broker(), self.producer.acknowledged)
        check_delivered(self.producer.acknowledged, self.handed_out.values)
        names = [consumer.name for consumer in self.consumers]
        self.silence.check_contacts(
            names, self.plan.heartbeat_interval_ms + 2 * self.plan.delay_ms[1], self.world.now_ms
        )
        check_answered(self.tap.unanswered(), self.world.now_ms, self._slack_ms())

    def _slack_ms(self) -> int:
        """Return the allowed delay: a waiting fetch and the network in both directions, in ms."""
        return self.plan.fetch_wait_ms + 2 * self.plan.delay_ms[1]

    def _check_balance(self) -> None:
        machine = self.consumers[0].machine
        assert machine is not None
        assignor = machine.group.membership.generation.protocol_name or ""
        check_balance({c.name: sorted(c.assigned) for c in self.consumers}, assignor, len(self.plan.topics))

    def _quiet_failover(self) -> None:
        """Restart the broker in calm: members only reconnect, and all continue."""
        before = standing(self.consumers)
        self.broker.kill("a quiet failover", restart_in_ms=200)
        self.producer.go_on(list(self.plan.topics), MORE_RECORDS, self.plan.send_every_ms)
        self.world.run(self.world.now_ms + QUIET_MS, after_each=self.check)
        check_nothing_moved(before, standing(self.consumers))
        self._check_end()

    def _farewell(self) -> None:
        """Make all clients leave, and check that the broker returns to its initial state."""
        for consumer in self.consumers:
            self.world.after(self.world.rng.randrange(0, 1_000), consumer.leave)
        self.producer.kill("done")
        self.admin.kill("done")
        forgotten_ms = (
            FAREWELL_MS + self.plan.session_timeout_ms
        )  # static members and dead processes send no LeaveGroup
        self.world.run(self.world.now_ms + forgotten_ms, after_each=self.check)
        broker = self._standing_broker()
        check_nothing_remains(broker, GROUP, len(self.consumers))

    def _administer(self, what: str, make: Make) -> Any:
        """Run an administrator operation without faults, and return its result."""
        promise = self.admin.do(what, make)
        self.world.run(self.world.now_ms + CLEARING_UP_MS, after_each=self.check, stop=lambda: promise.done)
        if not promise.done or promise.error is not None:
            raise CheckFailed(f"the administrator {what}: {promise.error or 'no answer'}")
        return promise.result()

    def _restart(self) -> None:
        self.broker.kill("when all is done", restart_in_ms=200)
        self.world.run(self.world.now_ms + 500, after_each=self.check)


def run_seed(seed: int) -> Verdict:
    """Run one seed to its verdict."""
    return run_plan(plan_of(seed))


def run_plan(plan: Plan) -> Verdict:
    """Run a plan to its verdict."""
    return verdict_of(OneBroker(plan))
