"""Pytest plugin of kohort, which gives tests brokers.

- ``kafka_broker``: a ``StagedBroker`` in memory, new for each test (some milliseconds). Options:
  ``@pytest.mark.kafka_broker(nodes=3, num_partitions=6)``.
- ``kafka_bootstrap``: its address for ``bootstrap.servers``.
- ``kafka_session_broker``: one broker for all tests of the session (with pytest-xdist: of each worker). For options
  override ``kafka_session_options`` in a ``conftest.py``.
- ``kafka_topic``: the name of a topic on it, unique per test; ``@pytest.mark.kafka_topic(partitions=3)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kohort.testing.staged import StagedBroker

MARKERS = (
    "kafka_broker(**options): arguments of the StagedBroker that the fixture kafka_broker creates",
    "kafka_topic(partitions=1, configs=None): partition count and options of the topic that kafka_topic creates",
)
NAME_MAX_LENGTH = 200


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def _options(request: pytest.FixtureRequest, marker: str) -> dict[str, Any]:
    """Return the keyword arguments of a test's markers; those of the nearest marker count."""
    options: dict[str, Any] = {}
    for found in reversed(list(request.node.iter_markers(marker))):
        options |= found.kwargs
    return options


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[StagedBroker]:
    """Provide a new broker with a movable clock and scripted faults."""
    from kohort.testing.staged import StagedBroker

    with StagedBroker(**_options(request, "kafka_broker")) as broker:
        yield broker


@pytest.fixture
def kafka_bootstrap(kafka_broker: StagedBroker) -> str:
    """Provide the address of the test's broker: ``HOST:PORT``."""
    return kafka_broker.bootstrap


@pytest.fixture(scope="session")
def kafka_session_options() -> dict[str, Any]:
    """Provide the options of ``kafka_session_broker``; override it in a ``conftest.py``."""
    return {}


@pytest.fixture(scope="session")
def kafka_session_broker(kafka_session_options: dict[str, Any]) -> Iterator[StagedBroker]:
    """Provide one broker for all tests.

    All tests share its scripted faults and its clock: tests that change these use ``kafka_broker``.
    """
    from kohort.testing.staged import StagedBroker

    with StagedBroker(**kafka_session_options) as broker:
        yield broker


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka_session_broker: StagedBroker) -> str:
    """Create a topic on ``kafka_session_broker`` and return its name, which contains the test's name."""
    from kohort import Admin, NewTopic

    options = {"partitions": 1, "configs": None} | _options(request, "kafka_topic")
    word = re.sub(r"[^A-Za-z0-9-]+", "-", request.node.name).strip("-")[:NAME_MAX_LENGTH]
    with Admin(bootstrap_servers=kafka_session_broker.bootstrap) as admin:
        known = {topic.name for topic in admin.list_topics()}
        name = next(numbered for n in count(1) if (numbered := f"{word}-{n}") not in known)
        admin.create_topics([NewTopic(name, options["partitions"], configs=options["configs"] or {})])
    return name
