"""Recorded runs: the client history or the broker journal of a seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Final

from kohort.coordinator.journal import JournalEntry
from kohort.insight.journal_reader import JournalReader
from kohort.log.partition import PartitionLog
from kohort_lab.sim.checks.durability import records_on
from kohort_lab.sim.client_history import DECODED, ClientsSeen
from kohort_lab.sim.swarm import Plan
from kohort_lab.sim.verdict import Verdict, verdict_of
from kohort_lab.sim.worlds.catalogue import WORLDS
from kohort_lab.sim.worlds.simulation import Simulation

TOPIC_OF_COPIES = "copies"
MORE_TO_JOIN_MS = 1_000
"""Time from a member's heartbeat and poll to its JoinGroup, in ms: network delay and user's pause."""


def write_run(world: str, seed: int, file: IO[str], *, alone: bool = False) -> Verdict:
    """Run a seed of a world and write its client history. ``alone``: no check of the simulator ends the run."""
    kind = WORLDS[world]
    plan = kind.plan_of(seed)
    run = kind.simulation(plan)
    if alone:
        run.context.checks.leave()
        run.check = lambda: None  # type: ignore[method-assign]  # of this run only
    recorder = ClientsSeen(file, run.world, run.history, _session_us(plan))
    recorder.topic_name = run.topic_name
    recorder.instances = _instances(run)
    if world == "transactions":
        recorder.read_committed_only([*(member.name for member in run.members), "double"])
    run.context.checks.add(recorder)
    run.tap.decode_also(*DECODED)
    _introduce(recorder, world, plan)
    verdict = verdict_of(run)
    recorder.acknowledged("producer", run.producer.acknowledged)
    recorder.finish({(topic, n): log for topic, n, log in _logs(run)})
    return verdict


def _instances(run: Simulation) -> dict[str, str]:
    """Return the instance ids of static members; equal ids mark a process that was started twice."""
    return {one.name: one.instance_id for one in (*run.members, run.double) if one.instance_id is not None}


def _session_us(plan: Plan) -> int | None:
    """Return the time for which a silent member stays in the group, in µs; None if an administrator may remove it.

    A rebalance without the member ends its membership earlier. That rebalance may have started before the last
    heartbeat, by the time to learn of it and to poll; with slow handlers that time is unknown.
    """
    if plan.faults & {"kick", "impostor", "double", "admin", "clock jump", "slow handler"} or plan.static:
        return None
    joins_late_ms = plan.heartbeat_interval_ms + plan.poll_ms + MORE_TO_JOIN_MS
    return min(plan.session_timeout_ms, plan.max_poll_interval_ms - joins_late_ms) * 1000


def _introduce(recorder: ClientsSeen, world: str, plan: Plan) -> None:
    effects = TOPIC_OF_COPIES if world == "transactions" else None
    protocol = "consumer" if world == "modern" else "classic"
    keeps = None if not plan.forgets else True
    recorder.client("setup").write("group", group="g", protocol=protocol, effects=effects, forgets=keeps)


def _logs(run: Simulation) -> Iterator[tuple[str, int, PartitionLog]]:
    topics = run.topics()
    for topic in topics if topics is not None else ():
        if not topic.name.startswith("__"):
            for number, log in enumerate(topic.partitions):
                yield topic.name, number, log


TOPIC: Final = "__kohort_journal"


def journal_of_seed(world: str, seed: int) -> tuple[Verdict, list[JournalEntry]]:
    """Run a seed of a world; return its verdict and its brokers' journal, oldest entry first."""
    kind = WORLDS[world]
    run = kind.simulation(kind.plan_of(seed))
    verdict = verdict_of(run)
    reader = JournalReader()
    for topic in run.topics() or ():
        if topic.name == TOPIC:
            for log in topic.partitions:
                for record in records_on(log):
                    reader.add(record.key, record.value)
    return verdict, sorted(reader.entries, key=lambda entry: entry.at_ms)
