"""Random scripts of groups with members of both protocols on both brokers, from a seed.

Groups change between consumer and classic as members join and leave. Group options, topics and transactions change
meanwhile.
"""

from __future__ import annotations

import random
from typing import Any

from kohort.wire.messages.group_admin import DescribeGroupsRequest
from support.differential.modern.administrator import Administrator
from support.differential.modern.both import Both
from support.differential.modern.classic_member import ClassicMember
from support.differential.modern.log import compare_logs
from support.differential.modern.member import VALID_REGEXES, ModernMember
from support.differential.modern.outsider import Outsider
from support.differential.modern.script import played
from support.differential.modern.transacting import Transactor

Member = ModernMember | ClassicMember


def play_mixed(bootstrap: str, seed: int, steps: int = 60) -> int:
    """Run one script; return its number of requests. Raises Parted with all requests."""
    return played(bootstrap, f"mixed {seed}", lambda both: _Mixed(both, random.Random(f"mixed {seed}")).play(steps))


class _Mixed:
    def __init__(self, both: Both, chance: random.Random) -> None:
        self.both = both
        self.chance = chance
        self.sizes: dict[str, int] = {}
        for name in "abc"[: chance.randint(1, 3)]:
            size = chance.randint(1, 6)
            self.sizes[both.create(name, size)] = size
        self.group = both.group("g")
        names = [*self.sizes, f"d-{both.mark}"]
        few = chance.choice((1, 1, 2, 2, 3, 4))
        both.speak_alike()
        self.modern = [ModernMember(both, chance, f"m{i}", self.group, names) for i in range(few)]
        for member in self.modern:
            # If a classic group rejects a pattern, Kafka has already sent the waiting members a rejoin.
            member.regexes = VALID_REGEXES
        many = chance.choice((1, 2, 2, 3, 3, 4, 5))
        self.classic = [ClassicMember(both, chance, f"k{i}", self.group, self.sizes) for i in range(many)]
        self.outsider = Outsider(both, chance, self.group, names)
        self.transactor = Transactor(both, self.outsider, chance)
        self.administrator = Administrator(both, chance, self.group, self.sizes)

    def play(self, steps: int) -> None:
        for step in range(steps):
            if self.both.is_late:
                break
            # Some groups begin with classic members alone, and some end with them.
            ratio = 0.15 if (step // 15) % 2 else self.chance.choice((0.2, 0.5))
            self._step(ratio)
            if any(one.regex for one in self.modern):
                self.both.await_same_epoch(self.group)
            self.outsider.look()
        self.transactor.end()
        self.both.check_still_parked()
        compare_logs(self.both, self.group)

    def _step(self, ratio: float) -> None:
        member: Any = self.chance.choice(self.modern if self.chance.random() < ratio else self.classic)
        kind = self.chance.random()
        if kind < 0.70:
            member.act()
        elif kind < 0.74:
            self._change_protocol()
        elif kind < 0.79:
            self.outsider.commit(member.member_id, member.epoch)
        elif kind < 0.83 and self.both.has_members(self.group):
            self.transactor.commit(member.member_id, member.epoch, member.instance_id)
        elif kind < 0.87:
            self.outsider.fetch(member.member_id, member.epoch)
        elif kind < 0.89:
            self.outsider.look_otherwise()
        elif kind < 0.91:
            self.outsider.ask(DescribeGroupsRequest(groups=[self.group]), 6)
        elif kind < 0.92:
            self.outsider.remove_offsets()
        elif kind < 0.925:
            self.outsider.remove_group()
        elif kind < 0.965:
            self.administrator.alter_options()
        else:
            self.administrator.change_topics()

    def _change_protocol(self) -> None:
        """Switch the protocol of a member that keeps its instance id."""
        modern, classic = self.chance.choice(self.modern), self.chance.choice(self.classic)
        if classic.name in self.both.waiting:
            return
        if self.chance.random() < 0.5 and classic.member_id:
            modern.member_id, modern.instance_id = classic.member_id, classic.instance_id
            modern.join()
        else:
            classic.instance_id = modern.instance_id
            classic.member_id = self.chance.choice((modern.member_id, "" if modern.instance_id else modern.member_id))
            classic.join()
