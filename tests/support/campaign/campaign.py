"""The rebalance campaign: run several groups in parallel, restart the broker, compare the reported causes."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from kohort import Admin, KohortError, Producer
from support.campaign.brokers import CampaignBroker
from support.campaign.group_run import ExpectedCause, GroupRun, Provoked
from support.campaign.plan import GroupPlan
from support.campaign.verdicts import Verdict, judge

AT_ONCE: Final = 12
STALL_S: Final = 9.5
REPORT_DELAY_S: Final = 3.0
"""Longest delay until ``kohort group why`` reports a rebalance: a watcher samples a few times per second."""
BROKER_ACTIONS: Final = ("restart", "kill", "stall")


@dataclass(slots=True)
class CampaignRun:
    """Actions of one run, and the verdicts on the reported causes."""

    ground: str
    noted: list[Provoked]
    verdicts: list[Verdict]
    took_s: float


class Records:
    """A producer that sends a few records per second to every topic of every group."""

    def __init__(self, bootstrap: str, stories: Sequence[GroupRun]) -> None:
        self._bootstrap, self._stories = bootstrap, stories
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Records:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30)

    def _write(self) -> None:
        with Producer(bootstrap_servers=self._bootstrap, linger_ms=20) as producer:
            while not self._ended.wait(0.5):
                for story in self._stories:
                    for topic in list(story.topics):
                        for partition in range(6):
                            try:
                                producer.send(topic, b"x", partition=partition)
                            except KohortError:
                                break  # missing topic


def run_campaign(
    ground: CampaignBroker, plans: Sequence[GroupPlan], actions: Sequence[str] = BROKER_ACTIONS
) -> CampaignRun:
    """Run all plans on a broker, then ``actions`` on the broker itself; return actions and verdicts."""
    began = time.monotonic()
    with ExitStack() as stack:
        stories = []
        for plan in plans:
            admin = stack.enter_context(Admin(bootstrap_servers=ground.bootstrap))
            stories.append(GroupRun(plan, ground.bootstrap, admin))
            stack.callback(stories[-1].end)
        stack.enter_context(Records(ground.bootstrap, stories))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(_play, stories))
        verdicts = _judge_all(ground, stories)
        try:
            for action in actions:
                _do_to_broker(ground, stories, action)
            verdicts = _judge_all(ground, stories)
        except RuntimeError as error:  # the broker did not restart: keep the verdicts so far
            print(f"{ground.name} did not come back: {error}", flush=True)
    noted = [one for story in stories for one in story.noted]
    return CampaignRun(ground.name, noted, verdicts, time.monotonic() - began)


def _judge_all(ground: CampaignBroker, stories: Sequence[GroupRun]) -> list[Verdict]:
    time.sleep(REPORT_DELAY_S)
    return [v for story in stories for v in judge(ground.name, story.noted, ground.findings(story.plan.group))]


def _play(story: GroupRun) -> None:
    story.begin()
    for action in story.plan.actions:
        if story.noted[-1].flaw is not None:
            return  # later actions would refer to members that do not exist
        story.play(action)


def _do_to_broker(ground: CampaignBroker, stories: Sequence[GroupRun], action: str) -> None:
    alive = [story for story in stories if story.noted and story.noted[-1].flaw is None]
    kind, truth = ("broker_stall", "BROKER_STALL") if action == "stall" else ("broker_restart", "COORDINATOR_FAILOVER")
    # The lost members depend on their clients, and a group can lose members twice.
    causes = (truth, "GROUP_FORMING", "CLIENT_RESET") * 2
    expected = tuple(ExpectedCause(cause, least=0, most=None) for cause in causes)
    done, begun = threading.Event(), threading.Barrier(len(alive) + 1)

    def wait(story: GroupRun) -> None:
        with story.around(kind, expected):
            begun.wait(60)
            done.wait(120)

    with ThreadPoolExecutor(max(1, len(alive))) as pool:
        waiting = [pool.submit(wait, story) for story in alive]
        begun.wait(60)
        try:
            if action == "stall":
                ground.stall(STALL_S)
            else:
                ground.restart(kill=action == "kill")
        finally:
            done.set()
        for one in waiting:
            one.result()
