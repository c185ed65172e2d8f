from __future__ import annotations


def test_topic_is_created_listed_described_and_deleted(run, ask):
    assert run("topics", "create", "orders", "--partitions", "2", "--config", "retention.ms=1000").stdout == (
        "created orders with 2 partitions\n"
    )

    assert "orders" in [t["name"] for t in ask("topics", "list")["topics"]]
    (about,) = ask("topics", "describe", "orders")["topics"]
    assert about["configs"] == {"retention.ms": "1000"}
    assert [p["partition"] for p in about["partitions"]] == [0, 1]
    assert {p["log_end_offset"] for p in about["partitions"]} == {0}

    assert run("topics", "delete", "orders", "--yes").stdout == "deleted orders\n"
    assert "orders" not in run("topics", "list").stdout


def test_tables_of_topics_have_column_names_of_kafka_topics_tool(run):
    run("topics", "create", "wide", "--partitions", "1")

    lines = run("topics", "describe", "wide").stdout.splitlines()

    assert lines[0].startswith("wide  id ")
    assert lines[1].split() == [
        "PARTITION",
        "LEADER",
        "REPLICAS",
        "ISR",
        "LOG-START-OFFSET",
        "LOG-END-OFFSET",
        "RECORDS",
    ]
    assert lines[2].split()[0] == "0"
    assert run("topics", "list").stdout.splitlines()[0].split() == ["TOPIC", "PARTITIONS"]


def test_creating_existing_topic_fails_without_if_not_exists(run):
    run("topics", "create", "twice")

    again = run("topics", "create", "twice", "fresh", code=5)
    assert "kohort topics: TOPIC_ALREADY_EXISTS" in again.stderr
    assert "created fresh" in again.stdout
    assert run("topics", "create", "twice", "--if-not-exists").stderr == "twice exists already\n"


def test_missing_topic_or_invalid_name_is_reported_in_one_line(run):
    missing = run("topics", "describe", "nowhere", code=3)
    assert missing.stdout == ""
    assert missing.stderr.startswith("kohort topics: UNKNOWN_TOPIC_OR_PARTITION: nowhere")
    assert len(missing.stderr.splitlines()) == 1
    assert "INVALID_TOPIC_EXCEPTION" in run("topics", "create", "a b", code=1).stderr


def test_delete_without_terminal_needs_yes(run):
    run("topics", "create", "precious")

    refused = run("topics", "delete", "precious", code=2)

    assert "Add --yes to confirm" in refused.stderr
    assert "precious" in run("topics", "list").stdout


def test_internal_topics_are_listed_only_with_internal_option(run, ask):
    assert not any(t["internal"] for t in ask("topics", "list")["topics"])
    assert run("topics", "list", "--internal").exit_code == 0


def test_topic_name_with_line_end_is_escaped(run):
    name = "a\r\nkohort: all is well\x1b[2J"

    error = run("topics", "delete", name, code=2).stderr
    refused = run("topics", "describe", name, code=1).stderr

    assert "Delete a??kohort: all is well?[2J and all records in it?" in error
    assert not set("\r\x1b") & set(error + refused)
