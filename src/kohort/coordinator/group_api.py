"""What an API of groups is made of: a module that decides on it, and an entry of this kind in ``api_table``.

There are two kinds. A request of one group is decided on in its shard and carried out like every event. A request of
several groups is answered from all shards; what it changes, it changes group by group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kohort.config import BrokerConfig
from kohort.coordinator.context import Context
from kohort.coordinator.memory_budget import NOTHING, Added
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import GroupRequest, Outcome, Reply
from kohort.coordinator.shard import Shards
from kohort.errors import ApiError, ErrorCode
from kohort.steps import Steps

Check = Callable[[GroupRequest, BrokerConfig], None]
Decide = Callable[[Groups, GroupRequest, Context], Outcome]
Answer = Callable[[Shards, GroupRequest, Context], Steps[Reply]]
Refuse = Callable[[GroupRequest, ErrorCode], Reply]
Explain = Callable[[Reply, str], Reply]
Withdraw = Callable[[Reply, ErrorCode], Reply]
AddedBytes = Callable[[GroupRequest, Groups], Added]


def check_nothing(_request: GroupRequest, _config: BrokerConfig) -> None:
    """Let every request pass."""


def check_group_id(request: GroupRequest, _config: BrokerConfig) -> None:
    """Raise INVALID_GROUP_ID for a request that names no group."""
    if not request.message.group_id:  # type: ignore[attr-defined]  # every request of one group has it
        raise ApiError(ErrorCode.INVALID_GROUP_ID)


def adds_nothing(_request: GroupRequest, _groups: Groups) -> Added:
    """Return nothing: a request that adds nothing worth counting before it is decided on."""
    return NOTHING


@dataclass(frozen=True, slots=True)
class GroupApi:
    """An API whose requests are about one group, the one that ``message.group_id`` names."""

    decide: Decide
    """What is to be done, given all groups of the partition. Raises ApiError, which becomes a refusal."""
    refuse: Refuse
    check: Check = check_nothing
    """Raises ApiError for requests that are refused before the group is looked up."""
    withdraw: Withdraw | None = None
    """Turns an answer into its refusal if the records cannot be appended; None: the whole request is refused."""
    added_bytes: AddedBytes = adds_nothing
    """Upper bound of the memory that a request adds to groups."""
    read_only: bool = False
    """Whether it is served without making ``__consumer_offsets`` first."""
    explain: Explain | None = None
    """Adds a message to a refusal, if its response has a field for one."""

    def refused(self, request: GroupRequest, error: ApiError) -> Reply:
        """Return the refusal for an error."""
        reply = self.refuse(request, error.code)
        return reply if self.explain is None or not error.message else self.explain(reply, error.message)


@dataclass(frozen=True, slots=True)
class SeveralGroupsApi:
    """An API whose requests are about any number of groups, and served in steps."""

    answer: Answer
    refuse: Refuse
    read_only: bool = False
