import json

import pytest
from click.testing import CliRunner

from kohort.cli.main import main
from kohort.insight.catalogue import CAUSES


def explain(*words):
    return CliRunner().invoke(main, ["explain", *words])


def test_explain_prints_proof_similar_causes_and_advice():
    output = explain("max-poll-exceeded").stdout

    assert output.startswith("MAX_POLL_EXCEEDED: A member left because its application did not poll")
    assert "PROOF     the client's reason (KIP-800)" in output
    assert "NOT       MEMBER_LEFT, where" in output
    assert "ADVICE    raise max.poll.interval.ms" in output


@pytest.mark.parametrize("word", ["22", "ILLEGAL_GENERATION", "IllegalGenerationException"])
def test_explain_accepts_name_or_number_of_error_code(word):
    output = explain(word).stdout

    assert output.startswith("ILLEGAL_GENERATION (22): The request has another generation")
    assert "SEE       ZOMBIE_COMMIT" in output


def test_explain_reports_error_code_unrelated_to_groups():
    assert "The error does not concern the group" in explain("TOPIC_ALREADY_EXISTS").stdout


def test_explain_suggests_nearest_name_for_unknown_word():
    result = explain("MAX_POL_EXCEDED")

    assert result.exit_code == 3
    assert result.stderr.startswith("kohort explain: unknown cause or Kafka error 'MAX_POL_EXCEDED'")
    assert result.stderr.endswith("; did you mean MAX_POLL_EXCEEDED?\n")


@pytest.mark.parametrize("word", ["\x1b[2J", "x" * 100_000, "", "-99", "\u202e"])
def test_explain_escapes_control_characters_of_unknown_word(word):
    result = explain("--", word)

    assert result.exit_code == 3
    assert result.stderr.count("\n") == 1
    assert result.stderr[:-1].isprintable()
    assert len(result.stderr) < 300


def test_explain_without_argument_prints_all_causes():
    listed = explain().stdout
    assert all(code in listed for code in CAUSES)
    output = json.loads(explain("--output", "json").stdout)
    assert [entry["code"] for entry in output["causes"]] == list(CAUSES)
    one = json.loads(explain("frozen", "--output", "json").stdout)["cause"]
    assert one["code"] == "SESSION_TIMEOUT.frozen"
    assert {"cause", "difference"} == set(one["look_alikes"][0])


def test_since_option_of_group_why_accepts_only_durations(run):
    for bad in ("soon", "1", "-5m", "1h30", "0s", "9" * 30 + "d"):
        result = run("group", "why", "g", "--since", bad, code=2)
        assert "is not a duration: expected a number with s, m, h or d (30m)" in result.stderr
    result = run("group", "why", "g", "--since", "1h", "--last", "2", code=2)
    assert "--last, --rebalance and --since exclude each other" in result.stderr
