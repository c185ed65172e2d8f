import logging

import pytest

from kohort.aio.serving.broker_log import FRAMES_MAX, KINDS_MAX, WINDOW_MS, BrokerLog
from kohort.notes import debug, info, warning

NOW = 1_700_000_000_000


@pytest.fixture
def broker_log(caplog):
    logger = logging.getLogger("kohort.test_broker_log")
    caplog.set_level(logging.INFO, logger.name)

    class CapturedLog(BrokerLog):
        def lines(self):
            found = [(record.levelname, record.getMessage()) for record in caplog.records]
            caplog.clear()
            return found

    return CapturedLog(logger)


def test_each_log_message_is_one_line_with_its_level(broker_log):
    broker_log.write([info("began"), warning("lost 7 bytes"), warning("lost 7 bytes"), debug("nobody asked")], NOW)

    assert broker_log.lines() == [("INFO", "began"), ("WARNING", "lost 7 bytes"), ("WARNING", "lost 7 bytes")]
    assert broker_log.wake_at_ms is None


def test_client_input_with_line_breaks_forges_no_log_line(broker_log):
    broker_log.write([warning("no topic 'x\n2026-11-22 19:00:00,000 INFO admin logged in\x1b[2J'")], NOW)
    broker_log.write([warning("y" * 1_280_090, "flood")], NOW)
    broker_log.write([warning("z\n" * 1_280_090, "flood")], NOW)
    broker_log.end()

    lines = broker_log.lines()
    assert lines[0][1] == "no topic 'x\\n2026-11-22 19:00:00,000 INFO admin logged in\\x1b[2J'"
    assert all(len(line) < 1_100 and line.isprintable() for _, line in lines)


@pytest.mark.heavy
def test_log_has_few_lines_for_100000_bad_connections(broker_log):
    for i in range(100_000):
        broker_log.write([warning(f"malformed request {i}", "malformed").about("10.0.0.1")], NOW + i)

    assert broker_log.lines() == [
        ("WARNING", "10.0.0.1: malformed request 0"),
        ("WARNING", "10.0.0.1: malformed request 59999 (the last of 59,999 similar messages within a minute)"),
    ]
    broker_log.end()
    assert broker_log.lines() == [
        ("WARNING", "10.0.0.1: malformed request 99999 (the last of 40,000 similar messages within a minute)")
    ]


def test_log_message_with_another_host_or_reason_is_written_immediately(broker_log):
    for host in ("10.0.0.1", "10.0.0.2"):
        for reason in ("malformed", "short"):
            for _ in range(3):
                broker_log.write([warning(reason, reason).about(host)], NOW)

    assert len(broker_log.lines()) == 4


def test_repeated_log_message_is_written_after_a_minute(broker_log):
    broker_log.write([warning("first", "a")], NOW)
    broker_log.write([warning("second", "a")], NOW + 1)
    broker_log.write([], broker_log.wake_at_ms - 1)
    assert broker_log.lines() == [("WARNING", "first")]

    broker_log.write([], broker_log.wake_at_ms)
    assert broker_log.lines() == [("WARNING", "second")]

    broker_log.write([], broker_log.wake_at_ms)
    assert broker_log.wake_at_ms is None
    broker_log.write([warning("third", "a")], NOW + 2 * WINDOW_MS + 1)
    assert broker_log.lines() == [("WARNING", "third")]


def test_log_of_messages_about_thousand_hosts_has_hundred_lines_and_a_count(broker_log):
    for i in range(1_000):
        broker_log.write([warning("malformed", "malformed").about(f"10.0.{i // 256}.{i % 256}")], NOW)
    assert len(broker_log.lines()) == KINDS_MAX + 1

    broker_log.write([], NOW + WINDOW_MS)
    assert broker_log.lines() == [
        ("WARNING", "10.0.3.231: malformed (the last of 899 similar messages within a minute)"),
    ]


def test_log_messages_below_the_log_level_use_no_memory(broker_log):
    broker_log.write([debug("idle", "idle").about(f"10.0.0.{i}") for i in range(200)], NOW)

    assert broker_log.wake_at_ms is None


def test_internal_error_is_logged_with_stack_but_without_forged_lines(broker_log):
    def decode(depth):
        if depth:
            decode(depth - 1)
        try:
            {}["a\nb"]  # type: ignore[index]
        except KeyError as error:
            raise ValueError("topic 'x\n2026-11-22 INFO admin logged in'") from error

    for _ in range(3):
        try:
            decode(3 * FRAMES_MAX)
        except ValueError as error:
            broker_log.write_failure("an error in the broker, on Received", error, NOW)

    [(level, text)] = broker_log.lines()
    lines = text.split("\n")
    assert level == "ERROR"
    assert lines[0].startswith("an error in the broker, on Received: ValueError: topic 'x\\n2026-11-22 INFO admin")
    assert any("KeyError" in line for line in lines)
    assert "in decode" in text
    assert not any(line.startswith("2026") for line in lines)
    assert len(lines) < 5 * FRAMES_MAX
    broker_log.end()
    assert "the last of 2 similar messages" in broker_log.lines()[0][1]
