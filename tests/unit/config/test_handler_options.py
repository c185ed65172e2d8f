"""Options of ``ConsumerGroup.handle``: defaults, delays, topic names, rejected combinations."""

from __future__ import annotations

import pytest

from kohort.config.handlers import handler_config
from kohort.errors import ConfigError


def test_handler_has_three_attempts_one_second_apart_by_default():
    config = handler_config({})

    assert (config.attempts, config.delays_ms) == (3, (1000, 1000))
    assert not config.dead_letters
    assert not config.retry_topics


def test_delays_grow_by_factor_up_to_their_limit():
    config = handler_config({"attempts": 6, "delay_ms": 1000, "delay_factor": 2, "delay_max_ms": 5000})

    assert config.delays_ms == (1000, 2000, 4000, 5000, 5000)


def test_delays_of_many_attempts_stay_at_their_limit():
    assert handler_config({"attempts": 1000, "delay_factor": 100}).delays_ms[-1] == 30_000


def test_topic_names_have_topic_and_delay_as_in_spring():
    config = handler_config({})

    assert config.retry_topic_of("orders", 1000) == "orders-retry-1000"
    assert config.dead_letter_topic_of("orders") == "orders-dlt"


def test_fatal_option_accepts_a_single_class():
    assert handler_config({"fatal": ValueError}).fatal == [ValueError]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"attempts": 0}, r"attempts=0: expected an integer from 1 to 1000"),
        ({"attemps": 5}, r"unknown option 'attemps'; did you mean attempts\?"),
        ({"delay_factor": 0.5}, r"delay.factor=0.5: expected a number from 1 to 100"),
        ({"fatal": ["ValueError"]}, r"fatal=\['ValueError'\]: expected a list of exception classes"),
        ({"fatal": KeyboardInterrupt}, r"expected a list of exception classes"),
        ({"batches": True, "retry_topics": True}, "batches=True excludes retry_topics=True"),
        ({"batches": True, "concurrency": 2}, "batches=True excludes concurrency above 1"),
        ({"concurrency": 8, "max_unfinished": 4}, "max_unfinished=4 must be at least concurrency=8"),
        ({"retry_topics": True, "attempts": 1}, "retry_topics=True needs attempts of at least 2"),
        ({"dead_letter_topic": "bin"}, "dead_letter_topic='bin' needs dead_letters=True"),
        ({"retry_topic": "{topic}-again"}, "retry_topic='{topic}-again' needs retry_topics=True"),
        ({"retry_topics": True, "retry_topic": "again"}, "expected a name with {topic}"),
        (
            {"retry_topics": True, "retry_topic": "{topic}-again", "delay_factor": 2.0},
            "expected a name with {delay}, as the delays differ",
        ),
        ({"dead_letters": True, "dead_letter_topic": "{topic}"}, "expected another name, as {topic}-dlt"),
    ],
)
def test_impossible_handler_options_are_rejected(options, problem):
    with pytest.raises(ConfigError, match=problem.replace("{", r"\{").replace("}", r"\}")):
        handler_config(options)
