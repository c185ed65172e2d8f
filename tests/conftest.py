"""Settings of all tests."""

import signal

import pytest
from hypothesis import HealthCheck, settings

# Hypothesis draws the same examples in each run, and passes or fails alike on any machine.
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")


def pytest_configure() -> None:
    """Let SIGINT reach child processes: a shell ignores it for a background job, and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow-files-first", action="store_true", help="start with the files that hold a slow test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow-files-first"):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)
