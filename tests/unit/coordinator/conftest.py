"""A coordinator without a broker for every test."""

import pytest

from support.machines.coordinator_stage import CoordinatorStage


@pytest.fixture
def stage() -> CoordinatorStage:
    return CoordinatorStage()
