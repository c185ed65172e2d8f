"""What a check says of exchanges that no seed is known to bring about."""

import pytest

from kohort.errors import ErrorCode
from kohort.sim.checks.broken import CheckFailed
from kohort.sim.checks.joiners import Joiners
from kohort.sim.checks.watcher import Exchange
from kohort.wire.apis import api_of
from kohort.wire.messages.group_classic import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)


def exchange(asked, answer):
    return Exchange("consumer", 1, api_of(asked), 5, 1, 0, asked=asked, answer=answer)


def joined(generation_id):
    return exchange(JoinGroupRequest(member_id="m"), JoinGroupResponse(member_id="m", generation_id=generation_id))


def not_written(generation_id):
    refused = SyncGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return exchange(SyncGroupRequest(member_id="m", generation_id=generation_id), refused)


def test_a_generation_that_could_not_be_written_is_not_given_again():
    joiners = Joiners()
    for said in (joined(4), not_written(4)):
        joiners.answered(said)
    with pytest.raises(CheckFailed, match="generation 4 could not be written"):
        joiners.answered(joined(4))


def test_a_group_that_was_forgotten_gives_it_again_although_nobody_heard_of_its_first():
    joiners = Joiners()
    for said in (joined(4), not_written(4), joined(2), joined(3), joined(4)):
        joiners.answered(said)
