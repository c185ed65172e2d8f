"""How many connections may stand."""

import pytest

from kohort.config.listeners import parse_overrides
from kohort.errors import ConfigError
from kohort.wire.messages.metadata import MetadataRequest
from support.machines.broker_stage import BrokerStage


def test_a_connection_above_max_connections_is_refused_and_the_others_stand():
    stage = BrokerStage(max_connections=2)
    first, second, third = (stage.connect(f"10.0.0.{i}") for i in range(3))

    assert third.closed == "10.0.0.2: refused, 2 connections are open already (max.connections)"
    assert first.ask(MetadataRequest(topics=[]), 12).brokers
    second.leave()
    assert stage.connect("10.0.0.9").closed is None


def test_max_connections_leaves_the_listener_between_brokers_alone():
    stage = BrokerStage(
        **{
            "listeners": "INNER://127.0.0.1:1,OUTER://127.0.0.1:2",
            "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:PLAINTEXT",
            "inter.broker.listener.name": "inner",
            "max.connections": 1,
        }
    )

    assert stage.connect(listener="OUTER").closed is None
    assert stage.connect(listener="OUTER").closed is not None
    assert stage.connect(listener="INNER").closed is None


def test_a_connection_above_those_of_its_address_is_refused():
    stage = BrokerStage(max_connections_per_ip=1)
    stage.connect("10.0.0.1")

    assert stage.connect("10.0.0.1").closed == (
        "10.0.0.1: refused, 1 connections from this address are open already (max.connections.per.ip)"
    )
    assert stage.connect("10.0.0.2").closed is None


def test_an_address_may_have_a_limit_of_its_own():
    stage = BrokerStage(max_connections_per_ip=1, max_connections_per_ip_overrides="10.0.0.1:2,[::1]:0")

    assert [stage.connect("10.0.0.1").closed is None for _ in range(3)] == [True, True, False]
    assert stage.connect("::1").closed is not None


def test_what_a_refused_peer_sends_is_dropped_and_its_end_is_not_counted():
    stage = BrokerStage(max_connections=1)
    stage.connect()
    refused = stage.connect()
    refused.send(MetadataRequest(topics=[]), 12)
    refused.leave()

    assert stage.connect().closed is not None


@pytest.mark.parametrize("text", ["10.0.0.1", "somewhere:3", "10.0.0.1:many", ":5", "10.0.0.1:-1"])
def test_an_override_that_cannot_be_read_is_named(text):
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides.*ADDRESS:COUNT"):
        parse_overrides([text])
