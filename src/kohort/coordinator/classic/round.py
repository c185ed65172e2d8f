"""Volatile state of a classic group: its members, their unanswered requests, the progress of the rebalance.

A ``Round`` starts from the persisted generation (``Round.of``). The group may drop it as long as the leader's
assignments are not persisted. Counters make the cost of a JoinGroup or Heartbeat independent of the group's size.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from kohort.coordinator.classic.member import Member, Protocols
from kohort.coordinator.classic.states import GroupState, may_follow
from kohort.coordinator.journal import ClientIdentity
from kohort.coordinator.outcome import GroupRequest, Outcome, Reply
from kohort.errors import ErrorCode, ProtocolError
from kohort.wire.consumer_protocol import (
    COUNT_BYTES,
    LENGTH_BYTES,
    PROTOCOL_TYPE,
    parse_subscribed_topics,
    topics_field,
)
from kohort.wire.messages.group_classic import JoinGroupRequest, JoinGroupResponse, SyncGroupResponse
from kohort.wire.messages.group_records import GroupMetadataValue

FIRST_JOIN_WITHOUT_PROTOCOL: Final = 7
"""First JoinGroup version whose error response may omit the protocol name (KIP-559)."""
NAMES_PARSED_MAX: Final = 20_000
"""Maximum number of topic names to parse in the subscriptions of one generation. Parsing them takes some 25 ms."""
SUBSCRIPTIONS_COMPARED: Final = 8
"""Maximum number of parsed subscriptions to keep. A subscription to exactly the same topics is not parsed again."""


def refuse_join(request: GroupRequest, code: ErrorCode, member_id: str | None = None) -> Reply:
    """Refuse a JoinGroup with ``code``. The response has ``member_id``, or by default the member id of the request."""
    message = request.message_as(JoinGroupRequest)
    name = None if request.api_version >= FIRST_JOIN_WITHOUT_PROTOCOL else ""
    known_id = message.member_id if member_id is None else member_id
    return Reply(request, JoinGroupResponse(error_code=code, protocol_name=name, member_id=known_id))


def refuse_sync(request: GroupRequest, code: ErrorCode) -> Reply:
    return Reply(request, SyncGroupResponse(error_code=code))


def refuse_parked(members: Iterable[Member], code: ErrorCode, out: Outcome) -> None:
    for member in members:
        if member.join is not None:
            out.replies.append(refuse_join(member.join, code, member.member_id))
        if member.sync is not None:
            out.replies.append(refuse_sync(member.sync, code))
        member.join = member.sync = None


class Round:
    """Members of a classic group with their unanswered requests, and the state of the group's rebalance."""

    def __init__(self, state: GroupState, state_since_ms: int, generation_id: int) -> None:
        self.state = state
        self.state_since_ms = state_since_ms
        self.generation_id = generation_id
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}
        self.pending_join: dict[str, int] = {}
        """Pending member ids, as a dict: member id -> time in ms at which the broker assigned it."""
        self.pending_sync: dict[str, None] = {}
        """Ids of members that have not yet received their assignment of this generation.

        It is a dict, because a set takes 150 bytes more.
        """
        self.awaiting_join = 0
        self.supporters: Counter[str] = Counter()
        self.subscribed_topics: frozenset[str] | None = frozenset()
        """Topics to which the members of the current generation subscribe; None if unknown."""
        self.partition_counts: dict[str, int] = {}
        """Partition count of each subscribed topic when the generation began.

        The journal names topics whose count changed.
        """
        self.opened_at_ms = state_since_ms
        self.initial = False
        """True during the initial rebalance delay of a group that was empty."""
        self.new_member_added = False
        self.delay_ms = 0
        self.remaining_ms = 0
        self.assigned_at_ms = state_since_ms
        self.last_to_sync: ClientIdentity | None = None
        self.fenced: dict[tuple[str, str, str], None] = {}

    @classmethod
    def of(cls, persisted: GroupMetadataValue | None, now_ms: int) -> Round:
        """Build the volatile state for a persisted generation: Stable if the generation has members, else Empty."""
        if persisted is None:
            return cls(GroupState.EMPTY, now_ms, 0)
        since_ms = persisted.current_state_timestamp
        rebalance = cls(GroupState.STABLE if persisted.members else GroupState.EMPTY, since_ms, persisted.generation)
        rebalance.protocol_type = persisted.protocol_type
        rebalance.protocol_name = persisted.protocol
        for m in persisted.members:
            rebalance_timeout_ms = m.rebalance_timeout if m.rebalance_timeout >= 0 else m.session_timeout
            member = Member(
                member_id=m.member_id,
                instance_id=m.group_instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                session_timeout_ms=m.session_timeout,
                rebalance_timeout_ms=rebalance_timeout_ms,
                protocols=((persisted.protocol or "", m.subscription),),
                expires_at_ms=now_ms + m.session_timeout,
                last_seen_ms=now_ms,
                assignment=m.assignment,
            )
            rebalance.add(member)
        if persisted.leader in rebalance.members:
            rebalance.leader = persisted.leader
        rebalance.parse_subscriptions()
        return rebalance

    def move_to(self, state: GroupState, now_ms: int) -> None:
        assert may_follow(state, self.state), f"{self.state.value} to {state.value}"
        self.state = state
        self.state_since_ms = now_ms

    def add(self, member: Member) -> None:
        if not self.members:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        self.supporters.update(name for name, _ in member.protocols)

    def remove(self, member_id: str) -> Member:
        member = self.members.pop(member_id)
        if member.instance_id is not None and self.instances.get(member.instance_id) == member_id:
            del self.instances[member.instance_id]
        self._uncount(member.protocols)
        if member.join is not None:
            self.awaiting_join -= 1
        self.pending_sync.pop(member_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, member: Member, member_id: str) -> None:
        old_id = member.member_id
        del self.members[old_id]
        member.member_id = member_id
        self.members[member_id] = member
        assert member.instance_id is not None
        self.instances[member.instance_id] = member_id
        if self.leader == old_id:
            self.leader = member_id
        if old_id in self.pending_sync:
            del self.pending_sync[old_id]
            self.pending_sync[member_id] = None

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        self._uncount(member.protocols)
        member.protocols = protocols
        self.supporters.update(name for name, _ in protocols)

    def _uncount(self, protocols: Protocols) -> None:
        for name, _ in protocols:
            self.supporters[name] -= 1
            if not self.supporters[name]:
                del self.supporters[name]

    def park_join(self, member: Member, request: GroupRequest) -> GroupRequest | None:
        """Hold a member's JoinGroup until the join phase ends; return its previous unanswered JoinGroup or None."""
        older, member.join = member.join, request
        if older is None:
            self.awaiting_join += 1
        return older

    def take_join(self, member: Member) -> GroupRequest | None:
        request, member.join = member.join, None
        if request is not None:
            self.awaiting_join -= 1
        return request

    @property
    def all_joined(self) -> bool:
        return self.awaiting_join == len(self.members) and not self.pending_join

    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of all members, in ms (protocol/groups.md#rebalances)."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return True if a client that offers the protocols ``names`` may join the group.

        The rules: protocol/groups.md#matching-protocols.
        """
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        return protocol_type == self.protocol_type and any(self.supporters[n] == len(self.members) for n in names)

    def vote(self) -> str | None:
        """Select the protocol of the next generation. A member votes for its first protocol that all members support.

        In a tie, the preference of the first member decides (protocol/groups.md#protocol-vote).
        """
        candidates = {name for name, count in self.supporters.items() if count == len(self.members)}
        votes: Counter[str] = Counter()
        for member in self.members.values():
            choice = next((name for name, _ in member.protocols if name in candidates), None)
            if choice is not None:
                votes[choice] += 1
        if not votes:
            return None
        most = max(votes.values())
        first = next(iter(self.members.values()))
        return next(name for name, _ in first.protocols if votes[name] == most)

    def parse_subscriptions(self) -> None:
        """Set ``subscribed_topics`` from the members' subscriptions; called only when a generation begins.

        Set it to None if a subscription is unreadable, or if the subscriptions have too many topic names.
        """
        self.subscribed_topics = None
        if not self.members:
            self.subscribed_topics = frozenset()
        if self.protocol_type != PROTOCOL_TYPE or self.protocol_name is None or not self.members:
            return
        with suppress(ProtocolError):
            self.subscribed_topics = _topics_of({m.metadata_of(self.protocol_name) for m in self.members.values()})

    def subscribes_to(self, topic: str) -> bool:
        return self.subscribed_topics is None or topic in self.subscribed_topics


def _topics_of(blobs: Iterable[bytes]) -> frozenset[str] | None:
    """Return all topics in encoded subscriptions; None if they have more than ``NAMES_PARSED_MAX`` topic names.

    Raises ProtocolError.
    """
    topics: set[str] = set()
    parsed: deque[bytes] = deque(maxlen=SUBSCRIPTIONS_COMPARED)
    left = NAMES_PARSED_MAX
    for blob in blobs:
        count, begins = topics_field(blob)
        if any(blob.startswith(field, begins) for field in parsed):
            continue
        left -= max(0, count)
        if left < 0:
            return None
        names = parse_subscribed_topics(blob)
        topics.update(names)
        size = sum(LENGTH_BYTES + len(name.encode("utf-8", "surrogatepass")) for name in names)
        parsed.append(blob[begins : begins + COUNT_BYTES + size])
    return frozenset(topics)
