"""Untrusted certificate of a broker: the client's errors are permanent, and the back-off is long."""

from __future__ import annotations

import pytest

from kohort.client.requests.io import Closed, Open, Output, Tick
from kohort.errors import AuthenticationFailed, ConnectionFailed
from kohort.wire.messages.group_classic import HeartbeatRequest
from unit.client.test_engine import World

UNTRUSTED = "the broker's certificate is signed by an authority that is not believed"


def refuse(world: World, outputs: list[Output]) -> list[Output]:
    out: list[Output] = []
    for output in outputs:
        if isinstance(output, Open):
            out += world.engine.handle(Closed(output.connection, UNTRUSTED, is_refusal=True), world.clock.now_ms())
    return out


def test_call_fails_if_certificate_of_every_address_is_untrusted():
    world = World()
    unsent = world.asker.ask(HeartbeatRequest(group_id="g"))

    opened = world.engine.handle(Tick(), world.clock.now_ms())
    opened = refuse(world, opened)
    assert not world.asker.has_answer(unsent), "the second address was not tried yet"
    refuse(world, opened)

    error = world.asker.answer_to(unsent)
    assert isinstance(error, AuthenticationFailed)
    assert not error.retriable
    assert str(error) == f"no broker accepts this client: one:9092 ({UNTRUSTED}); two:9092 ({UNTRUSTED})"


def test_request_to_node_with_untrusted_certificate_fails():
    world = World()
    unsent = world.asker.ask(HeartbeatRequest(group_id="g"), 1)

    refuse(world, world.engine.handle(Tick(), world.clock.now_ms()))

    assert isinstance(world.asker.answer_to(unsent), AuthenticationFailed)


@pytest.mark.parametrize(("is_refusal", "most"), [(True, 12), (False, 90)])
def test_untrusted_certificate_has_longer_back_off_than_lost_connection(is_refusal: bool, most: int):
    world = World(bootstrap_servers=["one:9092"])
    world.metadata.track({"t"})
    tries = 0
    for _ in range(60_000 // 50):
        for output in world.engine.handle(Tick(), world.clock.now_ms()):
            if isinstance(output, Open):
                tries += 1
                world.engine.handle(Closed(output.connection, UNTRUSTED, is_refusal), world.clock.now_ms())
        world.clock.advance(50)
    assert tries <= most
    assert tries >= most // 3
    failure = world.metadata.last_failure
    assert isinstance(failure, AuthenticationFailed if is_refusal else ConnectionFailed)
    assert (world.metadata.permanent_error is not None) == is_refusal
