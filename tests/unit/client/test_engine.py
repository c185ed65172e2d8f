"""The client's engine against a scripted broker: handshake, versions, connection loss, timeouts."""

from __future__ import annotations

import random

import pytest

from kohort.client.requests.engine import Engine
from kohort.client.requests.io import Tick
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.source import ANY_NODE, Poll, Unsent
from kohort.clock import ManualClock
from kohort.config.client import AdminConfig
from kohort.errors import ApiTimeout, ConnectionFailed, ErrorCode, KohortError, ProtocolError, UnsupportedVersion
from kohort.model import Node
from kohort.wire.apis import APIS
from kohort.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.group_classic import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kohort.wire.messages.produce import ProduceRequest
from kohort_lab.machines.loop import Loop
from kohort_lab.machines.scripted import HANG_UP, SILENCE, ScriptedBroker

ONE = ("one", 9092)
TWO = ("two", 9092)
FIRST_CONNECTION = 1


class Asker:
    def __init__(self) -> None:
        self.outbox: list[Unsent] = []
        self.answers: list[tuple[Unsent, object]] = []

    def ask(self, request: object, node_id: int = ANY_NODE, *, timeout_ms: int = 30_000, **options: object) -> Unsent:
        unsent = Unsent(node_id, request, timeout_ms, **options)
        self.outbox.append(unsent)
        return unsent

    def poll(self, _now_ms: int) -> Poll:
        unsent, self.outbox = self.outbox, []
        return Poll(unsent)

    def on_response(self, sent: Unsent, response: object, _now_ms: int) -> None:
        self.answers.append((sent, response))

    def on_failure(self, sent: Unsent, error: KohortError, _now_ms: int) -> None:
        self.answers.append((sent, error))

    def answer_to(self, unsent: Unsent) -> object:
        found = [answer for sent, answer in self.answers if sent is unsent]
        assert len(found) == 1, f"answered {len(found)} times"
        return found[0]

    def has_answer(self, unsent: Unsent) -> bool:
        return any(sent is unsent for sent, _ in self.answers)


class World:
    def __init__(self, **options: object) -> None:
        options.setdefault("bootstrap_servers", ["one:9092", "two:9092"])
        self.clock = ManualClock()
        self.loop = Loop(self.clock)
        self.one, self.two = ScriptedBroker(), ScriptedBroker()
        self.loop.serve(ONE, self.one)
        self.loop.serve(TWO, self.two)
        config = AdminConfig(**options)
        rng = random.Random(7)
        self.metadata = Metadata(config, rng)
        self.asker = Asker()
        self.engine = Engine(config, [self.asker], self.metadata, rng)
        self.loop.add(self.engine)
        self.metadata.learn_node(Node(1, *ONE))
        self.metadata.learn_node(Node(2, *TWO))

    def answer_to(self, unsent: Unsent, limit_ms: int = 60_000) -> object:
        self.loop.run_until(lambda: self.asker.has_answer(unsent), limit_ms)
        return self.asker.answer_to(unsent)


@pytest.fixture
def world() -> World:
    return World()


def heartbeat() -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def test_requests_use_highest_version_that_client_and_broker_support(world):
    world.one.ranges[12] = (0, 3)

    answer = world.answer_to(world.asker.ask(heartbeat(), 1))

    assert answer == HeartbeatResponse()
    assert [(s.header.api_key, s.header.api_version) for s in world.one.received] == [(18, 5), (12, 3)]
    hello = world.one.requests(ApiVersionsRequest)[0]
    assert hello.client_software_name == "kohort"


def test_api_versions_request_is_repeated_in_highest_version_of_broker(world):
    world.one.ranges[18] = (0, 2)

    answer = world.answer_to(world.asker.ask(heartbeat(), 1))

    assert answer == HeartbeatResponse()
    assert [s.header.api_version for s in world.one.received if s.header.api_key == 18] == [5, 2]


def test_request_source_limits_version_and_rewrites_request(world):
    world.one.on(FindCoordinatorRequest, lambda request, version: FindCoordinatorResponse(node_id=version))

    def shape(request, version):
        return FindCoordinatorRequest(key=request.key + f" at {version}")

    unsent = world.asker.ask(FindCoordinatorRequest(key="g"), 1, max_version=3, shape=shape)

    assert world.answer_to(unsent) == FindCoordinatorResponse(node_id=3)
    assert unsent.version == 3
    assert world.one.requests(FindCoordinatorRequest)[0].key == "g at 3"


def test_request_of_unsupported_api_fails_without_affecting_other_requests(world):
    del world.one.ranges[12]
    missing_right, fine = (
        world.asker.ask(heartbeat(), 1),
        world.asker.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 1),
    )

    error = world.answer_to(missing_right)

    assert isinstance(error, UnsupportedVersion)
    assert str(error) == "the broker at one:9092 does not serve Heartbeat"
    assert isinstance(world.answer_to(fine), FindCoordinatorResponse)


def test_version_mismatch_error_names_versions_of_client_and_broker(world):
    world.one.ranges[12] = (7, 9)

    error = world.answer_to(world.asker.ask(heartbeat(), 1))

    assert isinstance(error, UnsupportedVersion)
    assert str(error) == "the broker at one:9092 serves Heartbeat versions 7 to 9, this client needs 0 to 4"


def test_lost_connection_fails_requests_in_flight_and_next_request_reconnects(world):
    world.answer_to(world.asker.ask(heartbeat(), 1))
    world.one.on(HeartbeatRequest, lambda *_: HANG_UP)
    first = world.answer_to(world.asker.ask(heartbeat(), 1))
    world.one.on(HeartbeatRequest, lambda *_: HeartbeatResponse())

    second = world.answer_to(world.asker.ask(heartbeat(), 1))

    assert isinstance(first, ConnectionFailed)
    assert first.retriable
    assert str(first) == "node 1 at one:9092: the broker closed the connection"
    assert second == HeartbeatResponse()
    assert world.metadata.refresh_pending or world.one.requests(MetadataRequest) or world.two.requests(MetadataRequest)


def test_reconnect_back_off_grows_to_maximum():
    world = World(reconnect_backoff_ms=100, reconnect_backoff_max_ms=800)
    world.loop.stop(ONE)
    waits = []
    for _ in range(6):
        before = world.clock.now_ms()
        assert isinstance(world.answer_to(world.asker.ask(heartbeat(), 1)), ConnectionFailed)
        waits.append(world.clock.now_ms() - before)

    assert waits[0] == 0
    for wait, ideal in zip(waits[1:], [100, 200, 400, 800, 800], strict=True):
        assert 0.8 * ideal <= wait <= 1.2 * ideal + 1


def test_timed_out_request_fails_and_connection_is_closed(world):
    world.one.on(HeartbeatRequest, lambda *_: SILENCE)
    stuck = world.asker.ask(heartbeat(), 1, timeout_ms=500)
    behind = world.asker.ask(heartbeat(), 1)
    start = world.clock.now_ms()

    error = world.answer_to(stuck)

    assert isinstance(error, ApiTimeout)
    assert str(error) == "Heartbeat waited 500 ms for one:9092"
    assert world.clock.now_ms() == start + 500
    assert isinstance(world.answer_to(behind), ConnectionFailed)
    assert FIRST_CONNECTION not in [link.client_id for link in world.loop.links]


def test_request_to_any_node_tries_addresses_in_turn(world):
    world.loop.stop(ONE)

    answer = world.answer_to(world.asker.ask(FindCoordinatorRequest(coordinator_keys=["g"])))

    assert isinstance(answer, FindCoordinatorResponse)
    assert world.loop.opened == [ONE, TWO]


def test_unreachable_brokers_error_names_all_addresses(world):
    world.loop.stop(ONE)
    world.loop.stop(TWO)

    error = world.answer_to(world.asker.ask(heartbeat()))

    assert isinstance(error, ConnectionFailed)
    assert str(error) == ("no broker could be reached: one:9092 (Connection refused); two:9092 (Connection refused)")


def test_request_to_unknown_node_fails_at_once_and_refreshes_metadata(world):
    error = world.answer_to(world.asker.ask(heartbeat(), 9))

    assert isinstance(error, ConnectionFailed)
    assert str(error) == "node 9 is not in the cluster's metadata"


def test_requests_to_departed_node_fail_and_metadata_are_refreshed():
    world = World(reconnect_backoff_ms=10_000, reconnect_backoff_max_ms=10_000, bootstrap_servers=["two:9092"])
    brokers = {n: MetadataResponseBroker(node_id=n, host=host, port=9092) for n, host in ((1, "one"), (2, "two"))}
    world.two.on(MetadataRequest, lambda *_: MetadataResponse(brokers=list(brokers.values())))
    world.metadata.request_refresh()
    world.loop.run(1000)
    world.loop.stop(ONE)
    assert isinstance(world.answer_to(world.asker.ask(heartbeat(), 1)), ConnectionFailed)
    waiting = world.asker.ask(heartbeat(), 1)
    world.loop.settle()
    del brokers[1]
    world.metadata.request_refresh()
    world.loop.run(1000)
    failed = world.asker.on_failure

    def on_failure(sent, error, now_ms):
        failed(sent, error, now_ms)
        world.asker.ask(heartbeat(), 2)

    world.asker.on_failure = on_failure

    world.engine.handle(Tick(), world.clock.now_ms() + 15_000)

    assert str(world.asker.answer_to(waiting)) == "node 1 has left the cluster"
    assert world.asker.outbox == [], "the engine polls a source again after its request failed"


def test_bootstrap_connection_becomes_connection_of_its_node(world):
    world.one.on(
        MetadataRequest, lambda *_: MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="one", port=9092)])
    )
    world.metadata.track(["t"])
    world.loop.settle()

    world.answer_to(world.asker.ask(heartbeat(), 1))

    assert world.loop.opened == [ONE]


def test_each_channel_of_a_node_has_its_own_connection(world):
    world.answer_to(world.asker.ask(heartbeat(), 1))
    world.answer_to(world.asker.ask(heartbeat(), 1, channel="coordinator"))

    assert world.loop.opened == [ONE, ONE]


def test_responses_are_matched_to_requests_in_order(world):
    unsent = [world.asker.ask(FindCoordinatorRequest(coordinator_keys=[f"g{n}"]), 1) for n in range(20)]
    world.loop.settle()

    assert [sent for sent, _ in world.asker.answers] == unsent


def test_invalid_response_raises_protocol_error_and_closes_connection(world):
    def garbage(_request, _version):
        correlation_id = world.one.received[-1].header.correlation_id
        body = correlation_id.to_bytes(4, "big") + b"\x00" + b"\x00\x00\x00\x00\x00\x23\x99\x99"
        return len(body).to_bytes(4, "big") + body

    world.one.on(HeartbeatRequest, garbage)
    first = world.asker.ask(heartbeat(), 1)
    second = world.asker.ask(heartbeat(), 1)

    error = world.answer_to(first)

    assert isinstance(error, ProtocolError)
    assert str(error).startswith("Heartbeat v4 response from one:9092: ")
    assert isinstance(world.answer_to(second), ConnectionFailed)
    assert FIRST_CONNECTION not in [link.client_id for link in world.loop.links]


def test_out_of_order_response_closes_connection(world):
    def foreign_protocol(_request, _version):
        return (9).to_bytes(4, "big") + (77).to_bytes(4, "big") + bytes(5)

    world.one.on(HeartbeatRequest, foreign_protocol)

    error = world.answer_to(world.asker.ask(heartbeat(), 1))

    assert isinstance(error, ProtocolError)
    assert "correlation id 77" in str(error)


def test_responses_before_invalid_frame_are_delivered(world):
    answers = iter([HeartbeatResponse(), b"\xff\xff\xff\xff"])
    world.one.on(HeartbeatRequest, lambda *_: next(answers))

    good, bad = world.asker.ask(heartbeat(), 1), world.asker.ask(heartbeat(), 1)

    assert world.answer_to(good) == HeartbeatResponse()
    assert isinstance(world.answer_to(bad), ProtocolError)


def test_throttled_connection_pauses_requests(world):
    answers = iter([HeartbeatResponse(throttle_time_ms=300), HeartbeatResponse()])
    world.one.on(HeartbeatRequest, lambda *_: next(answers))
    world.answer_to(world.asker.ask(heartbeat(), 1))
    start = world.clock.now_ms()

    world.answer_to(world.asker.ask(heartbeat(), 1))

    assert world.clock.now_ms() - start == 300


def test_queued_request_fails_after_request_timeout(world):
    world.one.on(HeartbeatRequest, lambda *_: HeartbeatResponse(throttle_time_ms=10_000))
    world.answer_to(world.asker.ask(heartbeat(), 1))

    error = world.answer_to(world.asker.ask(heartbeat(), 1, timeout_ms=1000))

    assert isinstance(error, ApiTimeout)


def test_idle_connection_is_closed():
    world = World(connections_max_idle_ms=5000)
    world.answer_to(world.asker.ask(heartbeat(), 1))
    assert len(world.loop.links) == 1

    world.loop.run(5001)

    assert world.loop.links == []
    assert world.answer_to(world.asker.ask(heartbeat(), 1)) == HeartbeatResponse()


def test_connection_without_api_versions_response_is_closed():
    world = World(socket_connection_setup_timeout_ms=2000)
    world.one.on(ApiVersionsRequest, lambda *_: SILENCE)
    start = world.clock.now_ms()

    error = world.answer_to(world.asker.ask(heartbeat(), 1))

    assert isinstance(error, ConnectionFailed)
    assert "connected, but ApiVersions was not answered within 2000 ms" in str(error)
    assert world.clock.now_ms() - start == 2000


def test_request_that_expects_no_response_completes_when_written(world):
    unsent = world.asker.ask(ProduceRequest(acks=0), 1, expect_response=False)
    world.one.on(ProduceRequest, lambda *_: SILENCE)

    world.answer_to(unsent)

    assert len(world.one.requests(ProduceRequest)) == 1


def test_engine_close_fails_requests_in_flight_and_closes_connections(world):
    world.one.on(HeartbeatRequest, lambda *_: SILENCE)
    unsent = world.asker.ask(heartbeat(), 1)
    world.loop.settle()

    world.loop.close(world.engine)

    assert str(world.asker.answer_to(unsent)) == "the client was closed"
    assert world.loop.links == []


def test_each_request_completes_exactly_once_under_random_connection_loss(world):
    rng = random.Random(3)
    unsent = []
    for _ in range(200):
        unsent.append(world.asker.ask(heartbeat(), rng.choice([1, 2, ANY_NODE]), timeout_ms=2000))
        match rng.randrange(0, 8):
            case 0:
                world.loop.cut(rng.choice([ONE, TWO]))
            case 1:
                world.loop.stop(rng.choice([ONE, TWO]))
            case 2:
                world.loop.start(ONE)
                world.loop.start(TWO)
            case 3:
                world.loop.holding_answers = True
            case 4:
                world.loop.release_answers()
        world.loop.run(rng.randrange(1, 300))
    world.loop.run(10_000)

    for one in unsent:
        world.asker.answer_to(one)
    assert world.engine.idle or world.metadata.refresh_pending


# Expected node (KIP-1242)


def of_cluster(name: str, *nodes: tuple[int, tuple[str, int]]) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=i, host=host, port=port) for i, (host, port) in nodes]
    return MetadataResponse(cluster_id=name, brokers=brokers)


def expected_nodes(broker: ScriptedBroker) -> list[tuple[str | None, int]]:
    return [(hello.cluster_id, hello.node_id) for hello in broker.requests(ApiVersionsRequest)]


def hear_of_the_cluster(world: World) -> None:
    world.metadata.request_refresh()
    world.loop.run_until(lambda: world.metadata.cluster_id == "c", 1000)


def is_another(request: ApiVersionsRequest, _version: int) -> ApiVersionsResponse:
    if request.node_id == 7:
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    ranges = [ApiVersion(api_key=key, min_version=api.low, max_version=api.high) for key, api in APIS.items()]
    return ApiVersionsResponse(api_keys=ranges)


def test_expected_node_is_sent_for_known_nodes_only():
    world = World(bootstrap_servers=["one:9092"])
    world.one.on(MetadataRequest, lambda *_: of_cluster("c", (1, ONE), (7, TWO)))
    hear_of_the_cluster(world)

    assert world.answer_to(world.asker.ask(heartbeat(), 7)) == HeartbeatResponse()

    assert expected_nodes(world.one) == [(None, -1)]
    assert expected_nodes(world.two) == [("c", 7)]


def test_broker_that_is_not_expected_node_makes_client_rebootstrap():
    world = World(bootstrap_servers=["one:9092"])
    answers = iter([of_cluster("c", (1, ONE), (7, TWO)), of_cluster("c", (1, ONE), (8, TWO))])
    last = of_cluster("c", (1, ONE), (8, TWO))
    world.one.on(MetadataRequest, lambda *_: next(answers, last))
    world.two.on(ApiVersionsRequest, is_another)
    hear_of_the_cluster(world)

    failure = world.answer_to(world.asker.ask(heartbeat(), 7))

    assert isinstance(failure, ConnectionFailed)
    assert "the broker is not node 7 of cluster c" in str(failure)
    assert "metadata.cluster.check.enable=false" in str(failure)
    world.loop.run_until(lambda: {node.node_id for node in world.metadata.nodes} == {1, 8}, 10_000)
    assert world.answer_to(world.asker.ask(heartbeat(), 8)) == HeartbeatResponse()
    assert expected_nodes(world.one) == [(None, -1), (None, -1)], (
        "the connection to node 1 was closed and reopened, too"
    )
    assert expected_nodes(world.two) == [("c", 7), ("c", 8)]


def test_rebootstrap_required_error_in_metadata_response_makes_client_rebootstrap():
    world = World(bootstrap_servers=["one:9092"])
    answers = iter([of_cluster("c", (7, TWO)), of_cluster("c", (1, ONE))])
    world.one.on(MetadataRequest, lambda *_: next(answers))
    world.two.on(MetadataRequest, lambda *_: MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))
    hear_of_the_cluster(world)
    assert world.answer_to(world.asker.ask(heartbeat(), 7)) == HeartbeatResponse()
    world.loop.cut(ONE)

    world.metadata.request_refresh()
    world.loop.run_until(lambda: {node.node_id for node in world.metadata.nodes} == {1}, 10_000)

    assert len(world.two.requests(MetadataRequest)) == 1
    assert len(world.one.requests(MetadataRequest)) == 2


def test_metadata_recovery_strategy_none_disables_rebootstrap():
    world = World(bootstrap_servers=["one:9092"], metadata_recovery_strategy="NONE")
    world.one.on(MetadataRequest, lambda *_: of_cluster("c", (7, TWO)))
    world.two.on(MetadataRequest, lambda *_: MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED))
    hear_of_the_cluster(world)
    assert world.answer_to(world.asker.ask(heartbeat(), 7)) == HeartbeatResponse()
    world.loop.cut(ONE)

    world.metadata.request_refresh()
    world.loop.run(5_000)

    assert [node.node_id for node in world.metadata.nodes] == [7]
    assert len(world.two.requests(MetadataRequest)) > 1


def test_client_with_metadata_cluster_check_disabled_sends_no_expected_node():
    world = World(bootstrap_servers=["one:9092"], metadata_cluster_check_enable=False)
    world.one.on(MetadataRequest, lambda *_: of_cluster("c", (1, ONE), (7, TWO)))
    world.two.on(ApiVersionsRequest, is_another)
    hear_of_the_cluster(world)

    assert world.answer_to(world.asker.ask(heartbeat(), 7)) == HeartbeatResponse()

    assert expected_nodes(world.two) == [(None, -1)]
