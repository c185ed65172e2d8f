"""Stories of ``kohort acls``, ``kohort users`` and ``kohort quotas``."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import kohort
from kohort.cli.main import main

PASSWORD = "alice-secret"
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def guarded():
    """A broker with an authorizer; who comes unnamed may do everything."""
    with kohort.Broker(AUTHORIZED) as broker:
        yield broker


@pytest.fixture
def call(guarded):
    def run(*args, code=0, stdin=None, bootstrap=guarded.bootstrap, **environ):
        result = CliRunner(env={"KOHORT_BOOTSTRAP": bootstrap, **environ}).invoke(main, list(args), input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def told(call):
    """The JSON that a command prints."""
    return lambda *args, **more: json.loads(call(*args, "--output", "json", **more).stdout)


def rights(acls):
    return {(a["principal"], a["operation"], a["resource_type"], a["resource_name"]) for a in acls}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["add", "--topic", "t"], "say for whom: --allow-principal"),
        (["add", "--allow-principal", "alice", "--topic", "t"], "expected TYPE:NAME, such as User:alice"),
        (["list", "--principal", "alice"], "expected TYPE:NAME, such as User:alice"),
        (["add", "--allow-principal", "User:a"], "say of what: --topic"),
        (["remove", "--yes"], "say of what: --topic"),
        (["add", "--allow-principal", "User:a", "--producer"], "need a --topic"),
        (["add", "--allow-principal", "User:a", "--consumer", "--topic", "t"], "--consumer needs a --group"),
        (["add", "--allow-principal", "User:a", "--producer", "--topic", "t", "--operation", "all"], "leave --op"),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--idempotent"], "--idempotent goes with --producer"),
    ],
)  # fmt: skip
def test_acls_that_lack_something_are_refused_before_anyone_is_asked(call, args, words):
    assert words in call("acls", *args, code=2, bootstrap="127.0.0.1:1").stderr


def test_a_word_that_is_no_operation_is_guessed(call):
    refused = call("acls", "add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Raed", code=1)
    assert "did you mean read?" in refused.stderr


def test_brokers_without_authorizer_are_told_how_they_get_one(call, broker):
    for args in (["list"], ["add", "--allow-principal", "User:a", "--topic", "t"], ["remove", "--topic", "t", "--yes"]):
        refused = call("acls", *args, code=1, bootstrap=broker.bootstrap)
        assert f"kohort acls: {broker.bootstrap} has no authorizer: there are no ACLs" in refused.stderr
        assert "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer" in refused.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["set", "producer_byte_rate=1"], "say whose: --user"),
        (["remove", "--yes"], "say whose: --user"),
        (["set", "--user", "a", "--user-default", "x=1"], "--user and --user-default: choose one"),
        (["set", "--ip", "10.0.0.1", "--user", "a", "x=1"], "leave --user and --client out"),
        (["set", "--user", "a", "producer_byte_rate"], "expected KEY=VALUE"),
        (["set", "--user", "a", "producer_byte_rate=much"], "expected a number"),
    ],
)
def test_quotas_that_lack_something_are_refused_before_anyone_is_asked(call, args, words):
    assert words in call("quotas", *args, code=2, bootstrap="127.0.0.1:1").stderr
