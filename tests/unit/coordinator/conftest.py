"""A coordinator without a broker for every test."""

import pytest

from support.machines.coordinator_stage import Stage


@pytest.fixture
def stage() -> Stage:
    return Stage()
