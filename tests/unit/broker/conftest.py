"""A broker without a network for every test."""

import pytest

from support.machines.broker_stage import House, Peer


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def peer(house: House) -> Peer:
    return house.connect()
