from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import kohort
from kohort.cli.main import COMMANDS, main
from kohort.cli.terminal.cluster import complete_profiles

UNREACHABLE = "127.0.0.1:1"


@pytest.fixture
def files(broker, tmp_path):
    config = tmp_path / "client.properties"
    config.write_text(f"bootstrap.servers={broker.bootstrap}\nclient.id=by-file\nacks=all\ngroup.id=not-for-commands\n")
    profiles = tmp_path / "clusters.toml"
    profiles.write_text(f'[here]\nbootstrap.servers = "${{HERE}}"\n[gone]\nbootstrap.servers = "{UNREACHABLE}"\n')
    return {"KOHORT_PROFILES": str(profiles), "HERE": broker.bootstrap, "CONFIG": str(config)}


@pytest.fixture
def call(files):
    def run(*args, code=0, stdin=None, **environ):
        result = CliRunner(env={**files, **environ}).invoke(main, list(args), input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run


def test_config_file_or_profile_selects_cluster(call, files):
    call("topics", "create", "by-file", "--command-config", files["CONFIG"])

    for way in (("--config", files["CONFIG"]), ("--command-config", files["CONFIG"]), ("--profile", "here")):
        assert "by-file" in call("topics", "list", *way).stdout
    assert "by-file" in call("topics", "list", KOHORT_CONFIG=files["CONFIG"]).stdout
    assert "by-file" in call("topics", "list", KOHORT_PROFILE="here").stdout


def test_config_file_configures_admin_consumer_and_producer(call, files):
    for way in (("--config", files["CONFIG"]), ("--profile", "here")):
        call("produce", "lines", *way, stdin="hello\n")
        read = call("consume", "lines", "--from-beginning", "--until-end", *way)
        assert read.stdout.splitlines()[-1] == "hello"
        call("consume", "lines", "--group", "readers", "--from-beginning", "--max", "1", *way)
        assert json.loads(call("group", "describe", "readers", "--output", "json", *way).stdout)["group"] == "readers"
        assert call("group", "why", "readers", *way).exit_code == 0
        assert "readers" in call("groups", *way).stdout
        assert "NEW-OFFSET" in call("group", "reset-offsets", "readers", "--to-earliest", *way).stdout
        assert "leads" in call("nodes", "list", *way).stdout
        assert call("transactions", "list", *way).exit_code == 0
        call("group", "delete", "readers", "--yes", *way)
    assert "not-for-commands" not in call("groups", "--profile", "here").stdout


def test_command_line_overrides_environment_and_bootstrap_option_overrides_file(call, files, broker):
    assert call("topics", "list", "--profile", "here", KOHORT_PROFILE="gone").exit_code == 0
    assert call("topics", "list", "--profile", "here", KOHORT_BOOTSTRAP=UNREACHABLE).exit_code == 0
    assert call("topics", "list", "--profile", "gone", "--bootstrap", broker.bootstrap).exit_code == 0
    assert call("topics", "list", "--config", files["CONFIG"], KOHORT_PROFILE="gone").exit_code == 0
    assert call("topics", "list", "--profile", "gone", "--set", f"bootstrap.servers={broker.bootstrap}").exit_code == 0


def test_profile_from_environment_is_ignored_with_bootstrap_option(call, files, broker, tmp_path):
    (tmp_path / "clusters.toml").write_text('[prod]\nsecurity.protocol = "SASL_PLAINTEXT"\nsasl.password = "${NO}"\n')
    assert call("topics", "list", "--bootstrap", broker.bootstrap, KOHORT_PROFILE="prod").exit_code == 0
    assert "${NO}: the environment variable is not set" in call("topics", "list", KOHORT_PROFILE="prod", code=2).stderr


def test_config_and_profile_options_exclude_each_other(call, files):
    refused = call("topics", "list", "--config", files["CONFIG"], "--profile", "here", code=2)
    assert "exclude each other" in refused.stderr


def test_error_in_client_file_contains_path_of_file(call, files, tmp_path):
    bad = tmp_path / "bad.properties"
    bad.write_text("bootstrap.servers=localhost\nwhatever=1\n")
    refused = call("topics", "list", "--config", str(bad), code=2)
    assert refused.stderr.splitlines() == [
        f"kohort: {bad}: ignored unknown options: whatever",
        f"kohort topics: bootstrap.servers='localhost': expected HOST:PORT, such as localhost:9092 ({bad})",
    ]
    assert "did you mean here?" in call("groups", "--profile", "her", code=2).stderr


def test_consumer_setting_for_producer_is_rejected_on_command_line_but_not_in_file(call, files):
    refused = call("produce", "lines", "--profile", "here", "--set", "group.id=g", stdin="x\n", code=2)
    assert "group.id is an option of a consumer, not of this client" in refused.stderr


def test_every_command_that_connects_has_connection_options():
    def commands(group, name):
        for each in group.list_commands(None):
            command = group.get_command(None, each)
            if hasattr(command, "list_commands"):
                yield from commands(command, f"{name} {each}")
            else:
                yield f"{name} {each}".strip(), command

    found = dict(commands(main, ""))
    elsewhere = {"serve", "demo", "completion", "explain", "check-history"}
    for name, command in found.items():
        if name.split()[0] in elsewhere | {"pipeline", "sim"}:
            continue
        options = {option for parameter in command.params for option in parameter.opts}
        assert {"--bootstrap", "--command-config", "--profile", "--set"} <= options, name
    assert {name.split()[0] for name in found} == set(COMMANDS) | {"sim", "check-history"}


def test_shell_completion_offers_profiles_and_topics_of_selected_cluster(files, monkeypatch):
    for name, value in files.items():
        monkeypatch.setenv(name, value)
    assert complete_profiles(None, None, "h") == ["here"]
    with kohort.Admin(bootstrap_servers=files["HERE"]) as admin:
        admin.create_topics(["completed-by-profile"])

    done = CliRunner(
        env={**files, "_KOHORT_COMPLETE": "bash_complete", "COMP_WORDS": "kohort topics describe --profile here comple",
             "COMP_CWORD": "5"}
    ).invoke(main, [], prog_name="kohort")  # fmt: skip

    assert "plain,completed-by-profile" in done.stdout
