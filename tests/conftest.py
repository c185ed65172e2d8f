"""What holds for all tests."""

import os
import signal
import time

import pytest


def pytest_configure() -> None:
    """Ctrl-C works in the processes that tests start, even where a shell started the tests in its background, which
    has SIGINT ignored, and hands that on to every child."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "files that hold a slow test begin first: at the end no worker is left alone with a long one"
    parser.addoption("--slow-files-first", action="store_true", help=told)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow-files-first"):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where the time to run tests in is bounded, what cannot begin before its end is skipped, and says so.

    What has failed and is run again has begun: skipped, its failure would not count.
    """
    until = os.environ.get("KOHORT_TESTS_BEGIN_BEFORE")
    begins = getattr(item, "execution_count", 1) == 1  # counted by pytest-rerunfailures
    if until and begins and time.time() >= float(until):
        pytest.skip("left out: the time in which tests may begin is over")
