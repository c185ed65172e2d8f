"""A group that a broker coordinates: the project's own broker and clients, with whatever protocol their options say."""

from __future__ import annotations

from typing import Any, Final

from kohort.client.group.commits import Offsets
from kohort.client.requests.source import Promise
from kohort_lab.sim.actors.consumers import ConsumerActor
from kohort_lab.sim.checks.watcher import WatchedConsumer
from kohort_lab.sim.generations.group_world import GROUP, TOPIC, GroupMember, GroupWorld, Setup

SESSIONS: Final = frozenset({"session", "member_session"})
"""The timers that a member has as long as the coordinator knows it."""


class LeavingConsumer(ConsumerActor):
    """One that commits before it leaves, as a consumer does that commits by itself."""

    _last: Promise[Offsets] | None = None

    def leave(self) -> None:
        if self.machine is None or self.frozen or self._last is not None:
            return
        self._life += 1  # its user polls no more
        self._polling = False
        self._last = self.machine.commit(None, None)
        self.step_soon()

    def after_step(self) -> None:
        super().after_step()
        if self._last is not None and self._last.done:
            self._last = None
            super().leave()

    def kill(self, why: str) -> None:
        self._last = None
        super().kill(why)


class BrokerGroup(GroupWorld):
    """``options``: those of the members that make the generation."""

    def __init__(self, setup: Setup, **options: Any) -> None:
        self._options = options
        super().__init__(setup)

    def make_member(self, name: str) -> LeavingConsumer:
        config = self.consumer_config(name, group_id=GROUP, **self._options)
        return LeavingConsumer(name, self.stage, config, [TOPIC])

    def is_fenced(self, member: WatchedConsumer) -> bool:
        """Tell whether the coordinator has forgotten the member: it refuses the commits of whom it does not know."""
        broker = self.coordinator
        if broker is None:
            return False
        known = {key.member_id for key in broker.state.coordinator.timers_of(GROUP) if key.kind in SESSIONS}
        return member.member_id not in known

    def cut_off(self, member: GroupMember, for_ms: int) -> None:
        assert isinstance(member, LeavingConsumer)
        network, address = self.stage.network, self.address(self.coordinator_node)
        network.part(member, address)
        self.world.after(for_ms, lambda: network.join_again(member, address))
