"""Principals of client certificates (KIP-371)."""

import random

import pytest

from kohort.broker.broker import Broker
from kohort.broker.io import Close, Connected, Secured
from kohort.config import BrokerConfig, parse_config
from kohort.log.storage import MemoryStorage
from kohort.security.acls import ANONYMOUS, user

SUBJECT = "C=DE,O=Kohort,OU=eng,CN=alice"


def secured(name, **options):
    options_with_listener = {
        "listeners": "TLS://127.0.0.1:9093",
        "listener.security.protocol.map": "TLS:SSL",
        **options,
    }
    broker = Broker(parse_config(BrokerConfig, options_with_listener), MemoryStorage(), random.Random(1), 0)
    outputs = broker.handle(Connected(1, "127.0.0.1", "TLS"), 1)
    assert not outputs
    return broker, broker.handle(Secured(1, name), 2)


def caller(broker):
    return broker._connections[1].caller


def test_principal_is_the_subject_of_the_certificate_by_default():
    broker, outputs = secured(SUBJECT)
    assert (caller(broker).principal, list(outputs)) == (user(SUBJECT), [])


def test_client_without_certificate_is_anonymous():
    broker, _ = secured(None, **{"ssl.principal.mapping.rules": "RULE:nobody/x/"})
    assert caller(broker).principal == ANONYMOUS


def test_mapping_rules_apply_per_listener():
    rules = {
        "ssl.principal.mapping.rules": "RULE:nobody/x/",
        "listener.name.tls.ssl.principal.mapping.rules": "RULE:^.*CN=(.*)$/$1/U",
    }
    broker, _ = secured(SUBJECT, **rules)
    assert caller(broker).principal == user("ALICE")


def test_subject_without_matching_rule_closes_the_connection():
    broker, outputs = secured(SUBJECT, **{"ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/"})
    [close] = outputs
    assert isinstance(close, Close)
    assert "no rule of ssl.principal.mapping.rules matches the certificate of C=DE" in close.reason
    assert len(broker.state.connections) == 0


@pytest.mark.parametrize("name", [SUBJECT, None])
def test_sasl_listener_ignores_the_certificate(name):
    options = {
        "listener.security.protocol.map": "TLS:SASL_SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "ssl.principal.mapping.rules": "RULE:nobody/x/",
    }
    broker, outputs = secured(name, **options)
    assert (caller(broker).principal, list(outputs)) == (ANONYMOUS, [])
