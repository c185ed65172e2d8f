"""Limits of the number of connections."""

import pytest

from kohort.config.listeners import parse_overrides
from kohort.errors import ConfigError
from kohort.wire.messages.metadata import MetadataRequest
from support.machines.broker_stage import BrokerStage


def test_connection_above_max_connections_is_rejected():
    stage = BrokerStage(max_connections=2)
    first, second, third = (stage.connect(f"10.0.0.{i}") for i in range(3))

    assert third.closed == "10.0.0.2: connection rejected: 2 connections are open already (max.connections)"
    assert first.ask(MetadataRequest(topics=[]), 12).brokers
    second.leave()
    assert stage.connect("10.0.0.9").closed is None


def test_max_connections_does_not_apply_to_the_inter_broker_listener():
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


def test_connection_above_max_connections_per_ip_is_rejected():
    stage = BrokerStage(max_connections_per_ip=1)
    stage.connect("10.0.0.1")

    assert stage.connect("10.0.0.1").closed == (
        "10.0.0.1: connection rejected: 1 connections from this address are open already (max.connections.per.ip)"
    )
    assert stage.connect("10.0.0.2").closed is None


def test_max_connections_per_ip_overrides_sets_the_limit_of_an_address():
    stage = BrokerStage(max_connections_per_ip=1, max_connections_per_ip_overrides="10.0.0.1:2,[::1]:0")

    assert [stage.connect("10.0.0.1").closed is None for _ in range(3)] == [True, True, False]
    assert stage.connect("::1").closed is not None


def test_rejected_connection_does_not_change_the_number_of_open_connections():
    stage = BrokerStage(max_connections=1)
    stage.connect()
    refused = stage.connect()
    refused.send(MetadataRequest(topics=[]), 12)
    refused.leave()

    assert stage.connect().closed is not None


@pytest.mark.parametrize("text", ["10.0.0.1", "somewhere:3", "10.0.0.1:many", ":5", "10.0.0.1:-1"])
def test_invalid_max_connections_per_ip_override_is_named_in_the_error(text):
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides.*ADDRESS:COUNT"):
        parse_overrides([text])
