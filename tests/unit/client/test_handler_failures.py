"""Headers of failed records, and the rules after a failed attempt."""

from __future__ import annotations

import msgspec
import pytest

from kohort.client.handling.failures import STACK_LIMIT, Failure, failure_of, next_failure, without_failure
from kohort.client.handling.rules import HandlerRules, MoveRecord, RetryInPlace
from kohort.config.handlers import handler_config
from kohort.errors import ConfigError, ConnectionFailed, SchemaRegistryError, UndecodableValue
from kohort.model import Record

RECORD = Record("orders", 2, 7, 1234, b"key", b"value", (("trace", b"1"),))


def failed(error: Exception) -> Exception:
    try:
        raise error  # noqa: TRY301  # gives it a traceback
    except Exception as raised:  # noqa: BLE001
        return raised


def rules(topics: list[str] | None = None, **options: object) -> HandlerRules:
    return HandlerRules(handler_config(options), "g", ["orders"] if topics is None else topics)


def moved(record: Record, move: MoveRecord, offset: int = 0) -> Record:
    headers = (*without_failure(record.headers), *move.failure.headers())
    return msgspec.structs.replace(record, topic=move.topic, partition=0, offset=offset, headers=headers)


def test_failure_headers_have_names_of_kip_1191_and_connect():
    failure = next_failure(RECORD, failed(ValueError("no amount")), group="g", attempts=3, stage="handler")
    headers = dict(failure.headers())

    assert headers["__dlq.errors.topic"] == b"orders"
    assert headers["__dlq.errors.partition"] == b"2"
    assert headers["__dlq.errors.offset"] == b"7"
    assert headers["__dlq.errors.group"] == b"g"
    assert headers["__dlq.errors.delivery.count"] == b"3"
    assert headers["__dlq.errors.message"] == b"ValueError: no amount"
    assert headers["__dlq.errors.exception.class.name"] == b"ValueError"
    assert b"no amount" in headers["__dlq.errors.exception.stacktrace"]


def test_failure_is_read_back_from_its_headers():
    failure = next_failure(RECORD, failed(KeyError("é\ud800")), group="g", attempts=1, stage="handler", due_ms=99)
    record = msgspec.structs.replace(RECORD, headers=tuple(failure.headers()))

    found = failure_of(record)

    assert found is not None
    assert msgspec.structs.replace(found, message="", stack="") == msgspec.structs.replace(
        failure, message="", stack=""
    )
    assert failure_of(RECORD) is None


def test_origin_of_first_failure_survives_later_hops():
    first = rules(retry_topics=True, dead_letters=True, delay_factor=2)
    hop = first.after(RECORD, failed(ValueError("one")), 1, 1000)
    assert isinstance(hop, MoveRecord)
    retried = moved(RECORD, hop, 55)
    last = first.after(retried, failed(TypeError("two")), 3, 2000)

    assert isinstance(last, MoveRecord)
    assert (last.topic, last.main_topic, last.is_last) == ("orders-dlt", "orders", True)
    origin = last.failure
    assert (origin.topic, origin.partition, origin.offset, origin.timestamp_ms) == ("orders", 2, 7, 1234)
    assert (origin.exception, origin.message, origin.attempts) == ("TypeError", "two", 3)


def test_stack_in_headers_is_bounded_and_keeps_its_end():
    def deep(n: int) -> None:
        if n == 0:
            raise ValueError("x" * 100_000)
        deep(n - 1)

    try:
        deep(200)
    except ValueError as error:
        failure = next_failure(RECORD, error, group="g", attempts=1, stage="handler")

    assert len(failure.stack) == STACK_LIMIT
    assert failure.stack.endswith("x\n")
    assert sum(len(name) + len(value or b"") for name, value in failure.headers()) < 15_000


def test_dead_letters_of_brokers_connect_and_pipelines_are_read():
    def with_headers(**facts: str) -> Record:
        return msgspec.structs.replace(RECORD, headers=tuple((n, v.encode()) for n, v in facts.items()))

    broker = failure_of(with_headers(**{"__dlq.errors.topic": "t", "__dlq.errors.message": "Offset rejected"}))
    connect = failure_of(
        with_headers(**{"__connect.errors.topic": "t", "__connect.errors.exception.class.name": "a.B"})
    )
    pipeline = failure_of(with_headers(**{"kohort-error.topic": "t", "kohort-error.reason": "rule amount"}))

    assert broker is not None
    assert (broker.reason, broker.partition, broker.offset) == ("Offset rejected", -1, -1)
    assert connect is not None
    assert connect.reason == "a.B"
    assert pipeline is not None
    assert pipeline.reason == "rule amount"


@pytest.mark.parametrize("bad", ["", "-5", "1e9", "٣", "9" * 19, "9" * 5000])
def test_number_in_foreign_header_is_unknown_if_malformed(bad):
    headers = (("__dlq.errors.topic", b"t"), ("__dlq.errors.offset", bad.encode()), ("__dlq.errors.partition", None))

    assert failure_of(msgspec.structs.replace(RECORD, headers=headers)) == Failure("t", -1, -1)


def test_blocking_attempts_wait_and_the_last_one_moves_or_ends():
    error = failed(ValueError("no"))
    blocking = rules(attempts=3, delay_ms=10, delay_factor=2)

    assert blocking.after(RECORD, error, 1, 0) == RetryInPlace(10)
    assert blocking.after(RECORD, error, 2, 0) == RetryInPlace(20)
    assert blocking.after(RECORD, error, 3, 0) is None
    letters = rules(attempts=3, dead_letters=True).after(RECORD, error, 3, 0)
    assert isinstance(letters, MoveRecord)
    assert letters.topic == "orders-dlt"


def test_fatal_error_has_no_second_attempt():
    fatal = rules(fatal=[LookupError], dead_letters=True)

    assert isinstance(fatal.after(RECORD, failed(KeyError("k")), 1, 0), MoveRecord)
    assert isinstance(fatal.after(RECORD, failed(ValueError("v")), 1, 0), RetryInPlace)


def test_undecodable_record_is_fatal_unless_its_cause_may_pass():
    lasting, passing = UndecodableValue("bad byte"), UndecodableValue("no registry")
    lasting.__cause__ = ValueError("bad byte")
    passing.__cause__ = ConnectionFailed("registry")

    after = rules(dead_letters=True).after(RECORD, lasting, 1, 0)

    assert isinstance(after, MoveRecord)
    assert after.failure.stage == "deserializer"
    assert isinstance(rules(dead_letters=True).after(RECORD, passing, 1, 0), RetryInPlace)


def test_record_is_no_dead_letter_while_the_registry_gives_no_answer():
    passing = UndecodableValue("no registry")
    passing.__cause__ = ConnectionFailed("registry")
    letters = rules(dead_letters=True, attempts=3)

    assert letters.after(RECORD, passing, 3, 0) is None
    assert letters.after(RECORD, SchemaRegistryError("no answer", retriable=True), 3, 0) is None
    assert isinstance(letters.after(RECORD, SchemaRegistryError("unknown id", code=40403), 3, 0), MoveRecord)


def test_equal_delays_share_a_retry_topic():
    assert [*rules(retry_topics=True, attempts=5).retry_topics] == ["orders-retry-1000"]
    growing = rules(retry_topics=True, attempts=5, delay_factor=2)
    assert [*growing.retry_topics] == [f"orders-retry-{ms}" for ms in (1000, 2000, 4000, 8000)]


def test_record_of_retry_topic_has_its_attempt_and_due_time():
    retry = rules(retry_topics=True, delay_ms=500)
    hop = retry.after(RECORD, failed(ValueError("no")), 1, 10_000)
    assert isinstance(hop, MoveRecord)
    record = moved(RECORD, hop)

    assert retry.attempt(record) == 2
    assert retry.wait_ms(record, 10_200) == 300
    assert retry.wait_ms(record, 99_000) == 0
    assert retry.wait_ms(record, 0) == 500, "a wrong clock delays a record by the delay of its topic at most"
    assert retry.attempt(RECORD) == 1


def test_record_of_another_group_in_common_retry_topic_is_foreign():
    hop = rules(retry_topics=True).after(RECORD, failed(ValueError("no")), 1, 0)
    assert isinstance(hop, MoveRecord)
    other = HandlerRules(handler_config({"retry_topics": True}), "other", ["orders"])

    assert other.is_foreign(moved(RECORD, hop))
    assert not rules(retry_topics=True).is_foreign(moved(RECORD, hop))
    assert not other.is_foreign(RECORD)


def test_subscription_to_topic_and_its_dead_letters_is_rejected():
    with pytest.raises(ConfigError, match="has topic 'orders' and its dead-letter topic 'orders-dlt'"):
        rules(["orders", "orders-dlt"], dead_letters=True)
    with pytest.raises(ConfigError, match=r"the dead-letter topic of 'o+' would have 250 characters"):
        rules(["o" * 246], dead_letters=True).after(
            msgspec.structs.replace(RECORD, topic="o" * 246), failed(ValueError("no")), 3, 0
        )


def test_pattern_subscription_sends_no_dead_letter_of_a_dead_letter():
    by_pattern = HandlerRules(handler_config({"dead_letters": True, "attempts": 1}), "g", None)
    move = by_pattern.after(RECORD, failed(ValueError("no")), 1, 0)
    assert isinstance(move, MoveRecord)

    assert by_pattern.after(moved(RECORD, move), failed(ValueError("again")), 1, 0) is None


def test_topics_with_the_same_retry_topic_are_rejected():
    with pytest.raises(ConfigError, match="topics 'a' and 'a1' have the same retry topic 'a11'"):
        rules(["a", "a1"], retry_topics=True, retry_topic="{topic}{delay}", delay_ms=1, delay_factor=11)
    with pytest.raises(ConfigError, match="topic 'orders-retry-1000' is the retry topic of another subscribed topic"):
        rules(["orders", "orders-retry-1000"], retry_topics=True)
