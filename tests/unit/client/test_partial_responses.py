"""Timeout of a response whose first bytes have arrived."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.client.group.membership_classic import MemberState
from kohort.client.requests.io import FramesArrived, Open, Opened, Send, Tick
from kohort.errors import ApiTimeout
from kohort.wire.headers import build_response
from kohort.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kohort.wire.messages.group_classic import JoinGroupRequest, JoinGroupResponse
from kohort.wire.schema import Message
from kohort_lab.machines.scripted import ScriptedBroker
from support.machines.scripted_group import ScriptedGroup
from unit.client.test_engine import FIRST_CONNECTION, World

LONG_MS = 300_000
REQUEST_MS = 30_000


def too_long(broker: ScriptedBroker, response: Message, version: int) -> bytes:
    whole = b"".join(map(bytes, build_response(broker.received[-1].header.correlation_id, response, version)))
    return (int.from_bytes(whole[:4], "big") | 1 << 20).to_bytes(4, "big") + whole[4:]


def join(world: World) -> Any:
    return world.asker.ask(JoinGroupRequest(group_id="g"), 1, timeout_ms=LONG_MS)


def test_partly_received_response_must_complete_within_request_timeout():
    world = World()
    world.one.on(JoinGroupRequest, lambda _, version: too_long(world.one, JoinGroupResponse(), version))
    unsent, began_ms = join(world), world.clock.now_ms()

    error = world.answer_to(unsent)

    assert isinstance(error, ApiTimeout)
    assert str(error).startswith("JoinGroup waited 30000 ms for the rest of an answer of one:9092")
    assert world.clock.now_ms() - began_ms == REQUEST_MS
    assert FIRST_CONNECTION not in [link.client_id for link in world.loop.links], "the connection was closed"


def test_request_keeps_its_timeout_until_first_byte_of_response_arrives():
    world = World()
    late: list[int] = []
    world.one.on(JoinGroupRequest, lambda *_: late.append(world.clock.now_ms()) or b"")
    unsent = join(world)

    error = world.answer_to(unsent, LONG_MS + 1000)

    assert isinstance(error, ApiTimeout)
    assert str(error).startswith(f"JoinGroup waited {LONG_MS} ms for one:9092")
    assert world.clock.now_ms() - late[0] == LONG_MS


@pytest.mark.parametrize("begun", [1, 4, 5, 60])
def test_partly_received_response_in_own_buffer_times_out(begun: int):
    world = World()
    engine, clock = world.engine, world.clock
    unsent = join(world)
    (opening,) = [output for output in engine.handle(Tick(), clock.now_ms()) if isinstance(output, Open)]

    def arrive(data: bytes) -> bool:
        engine.room(opening.connection)[: len(data)] = data
        return engine.arrived(opening.connection, len(data))

    engine.handle(Opened(opening.connection), clock.now_ms())
    served = ApiVersionsResponse(api_keys=[ApiVersion(api_key=11, min_version=0, max_version=9)])
    assert arrive(b"".join(map(bytes, build_response(1, served, 5))))
    sent = engine.handle(FramesArrived(opening.connection), clock.now_ms())
    assert any(isinstance(output, Send) for output in sent), "JoinGroup was sent"
    clock.advance(100_000)

    whole = b"".join(map(bytes, build_response(2, JoinGroupResponse(member_id="m" * 100), 9)))
    assert arrive(whole[:begun]), "the first bytes of a JoinGroup response must be handled"
    engine.handle(FramesArrived(opening.connection), clock.now_ms())
    assert not arrive(whole[begun : begun + 1]), "later bytes of the response need no handling"
    assert engine.wake_at_ms is not None
    assert engine.wake_at_ms <= clock.now_ms() + REQUEST_MS

    clock.advance(REQUEST_MS)
    engine.handle(Tick(), clock.now_ms())
    assert isinstance(world.asker.answer_to(unsent), ApiTimeout)


def test_member_rejoins_after_partly_received_join_response():
    stage = ScriptedGroup()
    user = stage.user("t", group_id="g")
    joins = stage.on_join
    spoiled: list[int] = []

    def answer(request: JoinGroupRequest, version: int) -> Any:
        response = joins(request)
        if spoiled:
            return response
        spoiled.append(stage.now_ms)
        return too_long(stage.one, response, version)

    stage.one.on(JoinGroupRequest, answer)
    stage.until(lambda: spoiled)
    assert user.membership.state is MemberState.PREPARING_REBALANCE

    stage.polls(REQUEST_MS + 1000)

    assert user.owned == "t-0", "the join was repeated long before max.poll.interval.ms (five minutes)"
