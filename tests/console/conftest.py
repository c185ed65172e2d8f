from collections.abc import Iterator
from pathlib import Path

import pytest

import kohort
from kohort.console.app import ConsoleOptions
from support.console_client import ConsoleClient, console, live, site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return site(tmp_path / "static")


@pytest.fixture
def broker() -> Iterator[kohort.Broker]:
    with kohort.Broker(group_initial_rebalance_delay_ms=0) as broker:
        yield broker


@pytest.fixture
def client(broker: kohort.Broker, folder: Path) -> Iterator[ConsoleClient]:
    """Client of a console that allows changes."""
    with console(live(broker), folder, ConsoleOptions(allow_changes=True)) as client:
        yield client


@pytest.fixture
def orders(broker: kohort.Broker) -> str:
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"orders": 2})
    with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for n in range(20):
            producer.send("orders", b"order", partition=n % 2)
        producer.flush(60_000)
    read_all(broker, "billing")
    return "billing"


@pytest.fixture
def member(orders: str, broker: kohort.Broker) -> Iterator[kohort.Consumer]:
    with kohort.Consumer(bootstrap_servers=broker.bootstrap, group_id=orders, client_id="c-1") as consumer:
        consumer.subscribe(["orders"])
        while len(consumer.assignment()) < 2:
            consumer.poll(100)
        yield consumer


def read_all(broker: kohort.Broker, group: str, **options: object) -> None:
    with kohort.Consumer(
        bootstrap_servers=broker.bootstrap, group_id=group, auto_offset_reset="earliest", **options
    ) as consumer:
        consumer.subscribe(["orders"])
        records = 0
        while records < 20:
            records += len(consumer.poll(1_000))
        consumer.commit()
