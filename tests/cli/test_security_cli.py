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
def json_output(call):
    return lambda *args, **more: json.loads(call(*args, "--output", "json", **more).stdout)


def rights(acls):
    return {(a["principal"], a["operation"], a["resource_type"], a["resource_name"]) for a in acls}


def test_acls_are_added_listed_and_removed(call, json_output):
    added = call("acls", "add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
    assert added.stdout == "added: allow User:alice to read topic orders\n"

    (acl,) = json_output("acls", "list", "--topic", "orders")["acls"]
    assert acl == {
        "principal": "User:alice", "permission": "allow", "operation": "read", "resource_type": "topic",
        "resource_name": "orders", "pattern_type": "literal", "host": "*",
    }  # fmt: skip
    lines = call("acls", "list", "--topic", "orders").stdout.splitlines()
    assert lines[0].split() == ["PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST"]
    assert lines[1].split() == ["User:alice", "allow", "read", "topic", "orders", "literal", "*"]

    refused = call("acls", "remove", "--topic", "orders", code=2)
    assert "allow User:alice to read topic orders" in refused.stderr
    assert "Add --yes to confirm" in refused.stderr
    removed = call("acls", "remove", "--topic", "orders", "--yes")
    assert removed.stdout == "removed: allow User:alice to read topic orders\n"
    assert json_output("acls", "list", "--topic", "orders")["acls"] == []
    assert "no ACL matches" in call("acls", "remove", "--topic", "orders", "--yes", code=3).stderr


def test_producer_and_consumer_options_of_acls_add_allow_needed_operations(call, json_output):
    call("acls", "add", "--allow-principal", "User:p", "--producer", "--topic", "out", "--transactional-id", "tx")
    call("acls", "add", "--allow-principal", "User:c", "--consumer", "--topic", "in", "--group", "readers")

    assert rights(json_output("acls", "list", "--principal", "User:p")["acls"]) == {
        ("User:p", "write", "topic", "out"),
        ("User:p", "describe", "topic", "out"),
        ("User:p", "create", "topic", "out"),
        ("User:p", "write", "transactional_id", "tx"),
        ("User:p", "describe", "transactional_id", "tx"),
    }
    assert rights(json_output("acls", "list", "--principal", "User:c")["acls"]) == {
        ("User:c", "read", "topic", "in"),
        ("User:c", "describe", "topic", "in"),
        ("User:c", "read", "group", "readers"),
    }
    output = json_output(
        "acls", "remove", "--allow-principal", "User:c", "--consumer", "--topic", "in", "--group", "readers", "--yes"
    )
    assert len(output["removed"]) == 3
    assert json_output("acls", "list", "--principal", "User:c")["acls"] == []


def test_acls_list_of_topic_includes_prefixed_and_wildcard_acls(call, json_output):
    call("acls", "add", "--allow-principal", "User:a", "--topic", "etl-", "--resource-pattern-type", "prefixed")
    call("acls", "add", "--deny-principal", "User:b", "--deny-host", "10.0.0.7", "--operation", "Write", "--topic", "*")
    call("acls", "add", "--allow-principal", "User:c", "--topic", "etl-in")

    found = json_output("acls", "list", "--topic", "etl-in")["acls"]

    assert [(a["principal"], a["resource_name"], a["pattern_type"]) for a in found] == [
        ("User:b", "*", "literal"), ("User:a", "etl-", "prefixed"), ("User:c", "etl-in", "literal"),
    ]  # fmt: skip
    assert (found[0]["permission"], found[0]["host"]) == ("deny", "10.0.0.7")
    (exact,) = json_output("acls", "list", "--topic", "etl-in", "--resource-pattern-type", "literal")["acls"]
    assert exact["principal"] == "User:c"
    call("acls", "remove", "--topic", "etl-", "--resource-pattern-type", "prefixed", "--yes")
    assert json_output("acls", "list", "--principal", "User:a")["acls"] == []


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["add", "--topic", "t"], "expected a principal: --allow-principal"),
        (["add", "--allow-principal", "alice", "--topic", "t"], "expected TYPE:NAME, such as User:alice"),
        (["list", "--principal", "alice"], "expected TYPE:NAME, such as User:alice"),
        (["add", "--allow-principal", "User:a"], "expected a resource: --topic"),
        (["remove", "--yes"], "expected a resource: --topic"),
        (["add", "--allow-principal", "User:a", "--producer"], "need a --topic"),
        (["add", "--allow-principal", "User:a", "--consumer", "--topic", "t"], "--consumer needs a --group"),
        (["add", "--allow-principal", "User:a", "--producer", "--topic", "t", "--operation", "all"], "cannot"),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--idempotent"], "--idempotent needs --producer"),
    ],
)  # fmt: skip
def test_incomplete_acl_is_usage_error(call, args, words):
    assert words in call("acls", *args, code=2, bootstrap="127.0.0.1:1").stderr


def test_unknown_acl_operation_gets_suggestion(call):
    refused = call("acls", "add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Raed", code=2)
    assert "did you mean read?" in refused.stderr


def test_acls_command_without_authorizer_explains_how_to_configure_one(call, broker):
    for args in (["list"], ["add", "--allow-principal", "User:a", "--topic", "t"], ["remove", "--topic", "t", "--yes"]):
        refused = call("acls", *args, code=1, bootstrap=broker.bootstrap)
        assert f"kohort acls: {broker.bootstrap} has no authorizer, so it has no ACLs" in refused.stderr
        assert "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer" in refused.stderr


def test_users_are_added_listed_and_removed(call, json_output):
    added = call("users", "add", "alice", "--password-env", "ALICE", "--iterations", "5000", ALICE=PASSWORD)
    assert added.stdout == "alice has a password for SCRAM-SHA-256 and SCRAM-SHA-512\n"
    call("users", "add", "bob", "--password-file", "-", "--mechanism", "SCRAM-SHA-512", stdin="bob-secret\n")

    assert json_output("users", "list")["users"] == [
        {"user": "alice", "mechanisms": [
            {"name": "SCRAM-SHA-256", "iterations": 5000}, {"name": "SCRAM-SHA-512", "iterations": 5000}]},
        {"user": "bob", "mechanisms": [{"name": "SCRAM-SHA-512", "iterations": 4096}]},
    ]  # fmt: skip
    assert call("users", "list", "bob").stdout.splitlines()[1].split() == ["bob", "SCRAM-SHA-512", "4096"]
    assert "RESOURCE_NOT_FOUND" in call("users", "list", "carol", code=3).stderr

    call("users", "remove", "alice", "--mechanism", "SCRAM-SHA-256", "--yes")
    assert "Add --yes" in call("users", "remove", "bob", code=2).stderr
    assert json_output("users", "remove", "alice", "bob", "--yes")["removed"] == [
        {"user": "alice", "mechanism": "SCRAM-SHA-512"}, {"user": "bob", "mechanism": "SCRAM-SHA-512"},
    ]  # fmt: skip
    assert json_output("users", "list")["users"] == []
    assert "RESOURCE_NOT_FOUND" in call("users", "remove", "alice", "--yes", code=3).stderr


def test_users_add_reads_password_from_environment_or_file_or_stdin(call, json_output, tmp_path):
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\r\nnot this\n")
    call("users", "add", "dave", "--password-file", str(file))

    assert (
        "exclude each other" in call("users", "add", "d", "--password-file", "x", "--password-env", "X", code=2).stderr
    )
    assert (
        "NOPE: this environment variable is not set"
        in call("users", "add", "d", "--password-env", "NOPE", code=1).stderr
    )
    assert "No such file" in call("users", "add", "d", "--password-file", str(tmp_path / "no"), code=1).stderr
    assert "use --password-env or --password-file" in call("users", "add", "d", code=2).stderr
    assert (
        "the password of 'd' is empty" in call("users", "add", "d", "--password-file", "-", stdin="\n", code=2).stderr
    )
    call("users", "remove", "dave", "--yes")


def test_quotas_are_set_listed_and_removed(call, json_output):
    done = call("quotas", "set", "--user", "alice", "producer_byte_rate=1000000", "request_percentage=12.5")
    assert done.stdout == "user alice: producer_byte_rate=1000000\nuser alice: request_percentage=12.5\n"
    call("quotas", "set", "--user", "alice", "--client-default", "consumer_byte_rate=500")
    call("quotas", "set", "--ip-default", "connection_creation_rate=5")

    assert json_output("quotas", "list")["quotas"] == [
        {"entity": {"ip": None}, "values": {"connection_creation_rate": 5.0}},
        {"entity": {"user": "alice"}, "values": {"producer_byte_rate": 1000000.0, "request_percentage": 12.5}},
        {"entity": {"user": "alice", "client-id": None}, "values": {"consumer_byte_rate": 500.0}},
    ]
    lines = call("quotas", "list", "--user", "alice").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["USER", "CLIENT-ID", "IP", "QUOTA", "VALUE"],
        ["alice", "-", "-", "producer_byte_rate", "1000000"],
        ["alice", "-", "-", "request_percentage", "12.5"],
        ["alice", "<default>", "-", "consumer_byte_rate", "500"],
    ]

    assert "Add --yes" in call("quotas", "remove", "--user", "alice", code=2).stderr
    removed = call("quotas", "remove", "--user", "alice", "producer_byte_rate", "--yes")
    assert removed.stdout == "user alice: removed producer_byte_rate\n"
    assert json_output("quotas", "remove", "--user", "alice", "--yes")["removed"] == ["request_percentage"]
    assert "user alice has no quota" in call("quotas", "remove", "--user", "alice", "--yes", code=3).stderr
    call("quotas", "remove", "--user", "alice", "--client-default", "--yes")
    call("quotas", "remove", "--ip-default", "--yes")
    assert json_output("quotas", "list")["quotas"] == []


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["set", "producer_byte_rate=1"], "expected --user"),
        (["remove", "--yes"], "expected --user"),
        (["set", "--user", "a", "--user-default", "x=1"], "--user and --user-default exclude each other"),
        (["set", "--ip", "10.0.0.1", "--user", "a", "x=1"], "--ip cannot be combined with --user or --client"),
        (["set", "--user", "a", "producer_byte_rate"], "expected KEY=VALUE"),
        (["set", "--user", "a", "producer_byte_rate=much"], "expected a number"),
    ],
)
def test_incomplete_quota_is_usage_error(call, args, words):
    assert words in call("quotas", *args, code=2, bootstrap="127.0.0.1:1").stderr


def test_broker_error_of_quota_or_password_is_printed(call):
    assert "Invalid configuration key nope" in call("quotas", "set", "--user", "a", "nope=1", code=1).stderr
