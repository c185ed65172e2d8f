"""Subscriptions to metrics of clients, and who may push when: a broker of ours answers as Apache Kafka does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kohort
from kohort.wire.compression import Codec, compress
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.wire.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from support.raw.raw_client import RawClient
from support.telemetry.otlp_bytes import gauge, metrics_data
from support.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.timeout(300)]
CLIENT_METRICS, NO_ID = 16, bytes(16)
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
NAME = "compared"
PUSH = metrics_data(gauge("a", 1.5))

CHANGES = [
    ("", ("interval.ms", SET, "1000")),
    (NAME, ("interval.ms", SET, "99")),
    (NAME, ("interval.ms", SET, "3600001")),
    (NAME, ("interval.ms", SET, "soon")),
    (NAME, ("interval.ms", SET, "99999999999")),
    (NAME, ("interval.ms", SET, None)),
    (NAME, ("interval.ms", SET, " 500 ")),
    (NAME, ("interval.ms", APPEND, "5")),
    (NAME, ("interval.ms", SUBTRACT, "5")),
    (NAME, ("nonsense", SET, "1")),
    (NAME, ("nonsense", DELETE, None)),
    *(
        (NAME, ("match", SET, text))
        for text in (
            *("client_id", "nonsense=1", "client_id=[", "client_id=a=b", "client_id=", "=x", "", "client_id=a="),
            *("client_id=a,,client_id=b", "client_id=a,client_id=b", " client_id = a.* , client_software_name=x"),
        )
    ),
    *((NAME, ("metrics", SET, text)) for text in ("a.,b.", "a,,b", ",", "*", "", "a,a", " a , b ")),
    (NAME, ("metrics", APPEND, "c.")),
    (NAME, ("metrics", SUBTRACT, "c.")),
    (NAME, ("metrics", SET, None)),
    (NAME, ("interval.ms", SET, "200")),
]


@pytest.fixture(scope="module")
def plain() -> Iterator[str]:
    """A broker of ours that asks for nothing by itself."""
    with kohort.Broker({"kohort.client.metrics.default": ""}) as broker:
        yield broker.bootstrap


@pytest.fixture
def both(apache: str, plain: str) -> Iterator[tuple[RawClient, RawClient]]:
    with RawClient(plain, "same") as ours, RawClient(apache, "same") as theirs:
        for client in (ours, theirs):
            client.ask(ApiVersionsRequest(client_software_name="same", client_software_version="1.2"), 3)
        yield ours, theirs
        for client in (ours, theirs):
            alter(client, NAME, *((option, DELETE, None) for option in ("interval.ms", "match", "metrics")))


def alter(client: RawClient, name: str, *changes: tuple[str, int, str | None]) -> tuple[int, str | None]:
    configs = [AlterableConfig(name=n, config_operation=operation, value=value) for n, operation, value in changes]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=configs)
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return answer.error_code, answer.error_message


def described(client: RawClient, name: str) -> list[tuple[str, str | None, int]]:
    resource = DescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=None)
    (answer,) = client.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    return [(config.name, config.value, config.config_source) for config in answer.configs]


def test_every_change_is_taken_or_refused_in_the_same_words_and_described_alike(both):
    for name, change in CHANGES:
        ours, theirs = (alter(client, name, change) for client in both)
        assert ours == theirs, change
        if name and ours[0] == 0:
            check_described_alike(both, name)


def check_described_alike(both: tuple[RawClient, RawClient], name: str) -> None:
    """Wait until Apache Kafka has applied a change and describes it like kohort."""
    ours, theirs = both
    expected = described(ours, name)
    eventually(lambda: described(theirs, name) == expected, lambda: f"{described(theirs, name)}, and ours {expected}")


class Client:
    """A client that fetches subscriptions and pushes on request, and records error codes."""

    def __init__(self, wire: RawClient) -> None:
        self.wire = wire
        self.codes: list[int] = []
        self.subscription: Any = None

    def ask(self, client_instance_id: bytes | None = None) -> None:
        instance_id = self.subscription.client_instance_id if client_instance_id is None else client_instance_id
        answer = self.wire.ask(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0)
        self.codes.append(answer.error_code)
        if not answer.error_code:
            self.subscription = answer

    def requested_subscription(self) -> Any:
        """Fetch a subscription as a new client; None without requested metrics."""
        self.ask(NO_ID)
        return self.subscription if self.subscription.requested_metrics else None

    def push(self, metrics: bytes = b"", **changed: Any) -> None:
        request = PushTelemetryRequest(
            client_instance_id=self.subscription.client_instance_id,
            subscription_id=self.subscription.subscription_id,
            metrics=metrics,
        )
        for name, value in changed.items():
            setattr(request, name, value)
        self.codes.append(self.wire.ask(request, 0).error_code)


def asks_too_often(client: Client) -> None:
    client.ask(NO_ID)
    client.ask()


def pushes_too_often(client: Client) -> None:
    client.ask(NO_ID)
    client.push(PUSH)
    client.push(PUSH)
    client.ask()


def ends_and_goes_on(client: Client) -> None:
    client.ask(NO_ID)
    client.push(PUSH)
    client.push(PUSH, terminating=True)
    client.push(PUSH)
    client.push(PUSH)
    client.push(terminating=True)


def has_another_subscription(client: Client) -> None:
    client.ask(NO_ID)
    client.push(PUSH, subscription_id=client.subscription.subscription_id ^ 1)
    client.ask()
    client.push(PUSH)
    client.push(PUSH, subscription_id=1, terminating=True)


def has_an_id_of_its_own(client: Client) -> None:
    client.ask(bytes(range(16)))
    client.push(PUSH)
    client.push(PUSH, client_instance_id=NO_ID)
    client.push(PUSH, client_instance_id=bytes(15) + b"\1")
    client.push(PUSH, client_instance_id=bytes(range(1, 17)))


def compresses_oddly(client: Client) -> None:
    for codec in (-1, 5, 9):
        client.ask(NO_ID)
        client.push(PUSH, compression_type=codec)
        client.ask()


def pushes_too_much(client: Client) -> None:
    client.ask(NO_ID)
    client.push(bytes((1 << 20) + 1))
    client.ask()
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        client.ask(NO_ID)
        client.push(compress(codec, bytes((1 << 20) + 1)), compression_type=codec)
        client.ask(NO_ID)
        client.push(b"rubbish", compression_type=codec)
        client.ask(NO_ID)
        client.push(compress(codec, PUSH), compression_type=codec)


@pytest.mark.parametrize(
    "behaves",
    [
        asks_too_often,
        pushes_too_often,
        ends_and_goes_on,
        has_another_subscription,
        has_an_id_of_its_own,
        compresses_oddly,
        pushes_too_much,
    ],
)
def test_a_client_that(both: tuple[RawClient, RawClient], behaves: Callable[[Client], None]) -> None:
    clients = [Client(wire) for wire in both]

    for client in clients:
        behaves(client)

    assert clients[0].codes == clients[1].codes


def test_requested_metrics_are_equal(both):
    for wire in both:
        alter(wire, NAME, ("metrics", SET, "b.,a."), ("interval.ms", SET, "200"), ("match", SET, "client_id=sam[e-z]"))
    subscriptions = []
    for wire in both:
        client = Client(wire)
        subscription = eventually(client.requested_subscription)
        subscriptions.append(
            (
                sorted(subscription.requested_metrics),
                subscription.push_interval_ms,
                subscription.telemetry_max_bytes,
                subscription.accepted_compression_types,
            )
        )

    assert subscriptions[0] == subscriptions[1]
