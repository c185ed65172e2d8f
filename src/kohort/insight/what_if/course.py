"""The course of a scenario: step by step, what each rebalance makes of the group, and what all of them cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from kohort.insight.what_if.dealing import ReadTopics, is_cooperative, settle
from kohort.insight.what_if.scenario import Assumptions, PauseRange, WhatIfMember, pause_of_absence, pause_of_step
from kohort.insight.what_if.steps import GroupStep
from kohort.model import TopicPartition


@dataclass(slots=True)
class GroupCourse:
    """A group on its way: its members, what has moved so far, and for how long each partition was not read."""

    members: list[WhatIfMember]
    topics: ReadTopics
    assume: Assumptions
    rounds: int = 0
    moves_in_all: int = 0
    pauses: dict[TopicPartition, PauseRange] = field(default_factory=dict)

    def run(self, steps: Iterable[GroupStep]) -> None:
        """Take the steps, one after the other."""
        for step in steps:
            owned = owners_among(self.members)
            if step.away is not None:
                away = next(m for m in self.members if m.member_id == step.away)
                self.pause(away.owned, pause_of_absence(self.assume))
                self._replace(step)
            if step.deals:
                self._deal(step)
            if step.restarts and not self.members:  # nobody takes over from the only member
                self.pause(owned, pause_of_absence(self.assume))

    def pause(self, partitions: Iterable[TopicPartition], by: PauseRange) -> None:
        """Note that these partitions are not read for a while."""
        for tp in partitions:
            self.pauses[tp] = self.pauses.get(tp, PauseRange()).plus(by)

    def _replace(self, step: GroupStep) -> None:
        """Let a static member come back in its place, with what the one before it has."""
        (back,) = step.come
        self.members = [_in_place_of(m, back) if m.member_id == step.away else m for m in self.members]

    def _deal(self, step: GroupStep) -> None:
        was = owners_among(self.members)
        stay = self.members
        if step.away is None:
            stay = [m for m in self.members if m.member_id not in step.gone] + list(step.come)
        settled = settle(stay, step.way, self.topics)
        has = owners_among(settled.members)
        moved = [tp for tp, owner in was.items() if has.get(tp) != owner]
        self.members = settled.members
        self.rounds += settled.rounds
        self.moves_in_all += len(moved)
        manner = "consumer" if step.way.modern else "cooperative" if is_cooperative(step.way) else "eager"
        if manner == "cooperative" and any(member.eager for member in stay):
            manner = "eager"
        self.pause(was if manner == "eager" else moved, pause_of_step(manner, self.assume))


def _in_place_of(before: WhatIfMember, back: WhatIfMember) -> WhatIfMember:
    return replace(back, owned=before.owned)


def owners_among(members: Sequence[WhatIfMember]) -> dict[TopicPartition, str]:
    """Return who has which partition."""
    return {tp: member.member_id for member in members for tp in member.owned}
