from __future__ import annotations

import re

import pytest

import kohort
from kohort.aio.other_names import OF_ADMINS, OF_CONSUMERS, OF_DELIVERIES, OF_PRODUCERS
from kohort.aio.producing.delivery import Delivery
from kohort.config.client import AdminConfig, ConsumerConfig, ProducerConfig
from kohort.config.options import options_of
from kohort.config.other_names import INSTEAD
from kohort.errors import ConfigError

UNUSED_ADDRESS = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("client", "name", "words"),
    [
        (kohort.Consumer, "consume", r"use poll\(timeout_ms, max_records=...\) \(docs/guides/coming-from.md\)"),
        (kohort.AsyncConsumer, "stop", r"use close\(\)"),
        (kohort.Producer, "produce", r"use send\(topic, value, key\)"),
        (kohort.AsyncProducer, "produce", r"use send\("),
        (kohort.Admin, "create_topic", r"use create_topics\("),
        (kohort.AsyncAdmin, "list_consumer_groups", r"use list_groups\(\)"),
    ],
)
def test_error_for_method_name_of_another_client_names_kohort_method(client, name, words):
    with pytest.raises(AttributeError, match=words):
        getattr(client.__new__(client), name)


def test_unknown_attribute_of_client_raises_standard_attribute_error():
    with pytest.raises(AttributeError, match=r"^'Consumer' object has no attribute 'nothing_like_it'$"):
        kohort.Consumer.__new__(kohort.Consumer).nothing_like_it  # type: ignore[attr-defined]  # noqa: B018 - that is the question


@pytest.mark.parametrize(
    ("names", "client"), [(OF_CONSUMERS, kohort.Consumer), (OF_PRODUCERS, kohort.Producer), (OF_ADMINS, kohort.Admin)]
)
def test_kohort_methods_named_in_errors_exist(names, client):
    there = {name for name in dir(client) if not name.startswith("_")}
    for text in names.values():
        called = re.match(r"(\w+)\(", text)
        assert called is None or called.group(1) in there | {"Admin"}, text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rebalance_timeout_ms", "unknown option 'rebalance_timeout_ms': here it is max.poll.interval.ms"),
        ("queued.max.messages.kbytes", "no effect here: a consumer prefetches automatically"),
        ("fetch.message.max.bytes", r"here it is max\.partition\.fetch\.bytes \(docs/guides/coming-from\.md\)"),
    ],
)
def test_error_for_option_of_another_client_names_kohort_option(name, words):
    with pytest.raises(ConfigError, match=words):
        kohort.Consumer({name: "1"}, bootstrap_servers=UNUSED_ADDRESS)


def test_option_names_of_other_clients_are_no_kohort_options():
    ours = {option.name for config in (AdminConfig, ConsumerConfig, ProducerConfig) for option in options_of(config)}
    assert not ours & INSTEAD.keys()
    assert {text for text in INSTEAD.values() if re.fullmatch(r"[a-z.]+", text)} <= ours


def test_topic_passed_as_options_of_client_raises_config_error():
    with pytest.raises(ConfigError, match="a mapping of options, not 'orders'; topics are for subscribe"):
        kohort.Consumer("orders", bootstrap_servers=UNUSED_ADDRESS)


def test_error_for_method_name_of_kafka_python_future_names_kohort_method():
    there = {name for name in dir(Delivery) if not name.startswith("_")}
    for name, text in OF_DELIVERIES.items():
        assert set(re.findall(r"(\w+)\(", text)) <= there
        with pytest.raises(AttributeError, match="use"):
            getattr(Delivery.__new__(Delivery), name)
    # Delivery has slots only, because each sent record creates one
    assert not hasattr(Delivery.__new__(Delivery), "__dict__")


@pytest.mark.parametrize("client", [kohort.Consumer, kohort.AsyncConsumer, kohort.Producer, kohort.Admin, Delivery])
def test_method_names_of_other_clients_need_no_getattr_and_are_not_in_dir(client):
    assert not hasattr(client, "__getattr__")
    assert not {name for name in dir(client.__new__(client)) if not hasattr(client, name)} - {"__abstractmethods__"}


def test_error_for_method_name_of_another_client_on_class_names_kohort_method():
    with pytest.raises(AttributeError, match=r"^type object 'Producer' has no attribute 'produce': use send\("):
        kohort.Producer.produce  # type: ignore[attr-defined]  # noqa: B018 - that is the question
