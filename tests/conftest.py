"""What holds for all tests."""

import signal


def pytest_configure() -> None:
    """Ctrl-C works in the processes that tests start, even where a shell started the tests in its background, which
    has SIGINT ignored, and hands that on to every child."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
