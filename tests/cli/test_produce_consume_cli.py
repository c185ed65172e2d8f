from __future__ import annotations

import base64
import json

import pytest


@pytest.fixture
def topic(run, request):
    name = request.node.name.split("[")[0].removeprefix("test_")[:80]
    run("topics", "create", name, "--partitions", "3")
    return name


def read(run, topic, *args):
    return run("consume", topic, "--from-beginning", "--until-end", *args).stdout_bytes


def read_json(run, topic, *args):
    return [json.loads(line) for line in read(run, topic, "--format", "json", *args).splitlines()]


def test_consume_prints_produced_lines(run, topic):
    sent = run("produce", topic, stdin="one\ntwo\n\nthree")

    assert sent.stdout == ""
    assert f"4 records to {topic} in" in sent.stderr
    assert sorted(read(run, topic).split(b"\n")) == sorted([b"one", b"two", b"", b"three", b""])


def test_keys_headers_and_nulls_are_preserved(run, topic):
    options = [
        "--key-separator",
        "|",
        "--null-value",
        "NULL",
        "--header",
        "origin=import",
        "--set",
        "compression.type=zstd",
    ]

    run("produce", topic, *options, "--set", "compression.type=zstd", stdin="k1|v1\nk2|NULL\nNULL|a|b\n")

    found = {r["key"]: (r["value"], r["headers"]) for r in read_json(run, topic)}
    origin = [["origin", "import"]]
    assert found == {"k1": ("v1", origin), "k2": (None, origin), None: ("a|b", origin)}
    assert b"k1=v1\n" in read(run, topic, "--key-separator", "=")
    assert b"k2=-\n" in read(run, topic, "--key-separator", "=", "--null-value", "-")
    assert b"origin:import\tk1=v1\n" in read(run, topic, "--key-separator", "=", "--headers")


def test_invalid_utf_8_is_preserved(run, topic):
    run("produce", topic, stdin=b"\xff\xfe\n")

    assert read(run, topic) == b"\xff\xfe\n"
    assert read_json(run, topic)[0]["value"] == {"base64": base64.b64encode(b"\xff\xfe").decode()}


def test_produce_takes_key_from_json_field(run, topic):
    run(
        "produce", topic, "--format", "json", "--key-field", "id", stdin='{"id": 7, "n": 1}\n{"id": "x"}\n{"id":null}\n'
    )

    assert {r["key"]: r["value"] for r in read_json(run, topic)} == {
        "7": '{"id": 7, "n": 1}',
        "x": '{"id": "x"}',
        None: '{"id":null}',
    }


def test_produce_stops_at_malformed_json_line(run, topic, tmp_path):
    path = tmp_path / "orders.jsonl"
    path.write_text('{"n": 1}\n{"n": \n{"n": 3}\n')

    failed = run("produce", topic, str(path), "--format", "json", code=1)

    assert f"kohort produce: {path}:2: not JSON: Expecting value at column" in failed.stderr
    assert read(run, topic) == b'{"n": 1}\n'


def test_produce_skips_malformed_lines_with_on_error_skip(run, topic, tmp_path):
    path = tmp_path / "orders.jsonl"
    path.write_text('{"n": 1}\nnope\n{"n": 3}\n')

    done = run("produce", topic, str(path), "--format", "json", "--on-error", "skip")

    assert f"skipped {path}:2: not JSON" in done.stderr
    assert f"2 records to {topic}, 1 skipped" in done.stderr
    assert sorted(read(run, topic).splitlines()) == [b'{"n": 1}', b'{"n": 3}']


def test_produce_sends_files_and_stdin_in_order_of_arguments(run, topic, tmp_path):
    one, two = tmp_path / "1", tmp_path / "2"
    one.write_text("a\n")
    two.write_text("c\n")

    run("produce", topic, str(one), "-", str(two), "--partition", "1", stdin="b\n")

    assert [(r["partition"], r["value"]) for r in read_json(run, topic)] == [(1, "a"), (1, "b"), (1, "c")]


def test_consume_stops_with_max_and_until_end_options(run, topic):
    run("produce", topic, "--partition", "2", stdin="".join(f"{i}\n" for i in range(50)))

    assert read(run, topic, "--max", "3", "--partition", "2").splitlines() == [b"0", b"1", b"2"]
    tail = run("consume", topic, "--partition", "2", "--offset", "47", "--until-end")
    assert tail.stdout == "47\n48\n49\n"
    assert tail.stderr == "3 records\n"
    assert run("consume", topic, "--idle", "0.3", "--quiet").output == ""


def test_consume_of_group_continues_at_committed_offset(run, topic):
    run("produce", topic, "--partition", "0", stdin="a\nb\nc\nd\n")

    first = run("consume", topic, "--group", f"g-{topic}", "--from-beginning", "--max", "3")
    then = run("consume", topic, "--group", f"g-{topic}", "--from-beginning", "--until-end")

    assert (first.stdout, then.stdout) == ("a\nb\nc\n", "d\n")


def test_consume_csv_has_column_names(run, topic):
    run("produce", topic, "--key-separator", ":", stdin='k:say "hi"\n')

    lines = read(run, topic, "--format", "csv").decode().splitlines()

    assert lines[0] == "topic,partition,offset,timestamp_ms,key,value"
    assert lines[1].endswith(',k,"say ""hi"""')


def test_missing_topic_or_partition_is_reported_in_one_line(run, broker, topic):
    result = run("consume", "nowhere", code=3)
    assert result.stderr == f"kohort consume: topic 'nowhere' does not exist on {broker.bootstrap}\n"
    outside = run("consume", topic, "--partition", "3", code=3)
    assert f"topic '{topic}' has partitions 0 to 2, not 3" in outside.stderr
    wrong = run("produce", topic, "--partition", "9", code=2, stdin="x\n")
    assert "9" in wrong.stderr


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("produce", "t", "--key-field", "id"), "--key-field needs --format json"),
        (("produce", "t", "--header", "nothing"), "expected KEY=VALUE"),
        (("produce", "t", "--set", "nothing"), "expected KEY=VALUE"),
        (("consume", "t", "--group", "g", "--offset", "3"), "exclude --group"),
        (("consume", "t", "--max", "0"), "--max"),
        (("consume", "t", "--headers", "--format", "csv"), "--headers is for raw lines"),
        (("consume",), "Missing argument"),
    ],
)
def test_usage_error_exits_with_2_and_names_option(run, args, problem):
    assert problem in run(*args, code=2, stdin="").stderr


def test_error_names_unknown_client_option(run, topic):
    failed = run("consume", topic, "--set", "fetch.min.bites=1", code=2)

    assert "fetch.min.bites" in failed.stderr
