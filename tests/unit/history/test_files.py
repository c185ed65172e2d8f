"""Unreadable and torn history files, and histories with one file per client."""

import json

import pytest

from kohort_lab.history.checker import check_history
from kohort_lab.history.lines import LONGEST_LINE, HistoryUnreadable
from kohort_lab.history.writer import ClientHistory
from support.histories import WrittenHistory

SEND = {"op": "send", "client": "p", "topic": "t", "partition": 0, "value": "v", "result": "ok", "offset": 0, "at": 1}


def refused(folder, *lines):
    path = folder / "h.jsonl"
    path.write_text("".join(line + "\n" for line in lines))
    with pytest.raises(HistoryUnreadable) as error:
        check_history([path])
    return str(error.value).removeprefix(str(folder))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"op": "sent"}, "'op' must be one of assigned, begin,"),
        ({"op": ["send"]}, "'op' must be one of"),
        ({"client": ""}, "'client' must be a non-empty string, not ''"),
        ({"partition": -1}, "'partition' must be an integer from 0"),
        ({"partition": True}, "'partition' must be an integer"),
        ({"offset": 1 << 50}, "'offset' must be an integer from 0 up to 17592186044416"),
        ({"offset": "0"}, "'offset' must be an integer"),
        ({"result": "maybe"}, "'result' must be one of ok, fail, unknown, begun"),
        ({"at": None}, "'at' must be an integer"),
        ({"done": 0}, "'done' (0) is before 'at' (1)"),
        ({"value": 7}, "'value' must be a non-empty string"),
        ({"of": [["t", 0]]}, "an entry of 'of' must be a list of length 3"),
        ({"of": [[0, 0, 0]]}, "an entry of 'of' must be [topic, partition, offset]"),
        ({"op": "read", "records": 5}, "'records' must be a list"),
        ({"op": "read", "records": [[0]]}, "an entry of 'records' must be"),
        ({"op": "read", "records": [[-1, "v"]]}, "an entry of 'records' must be"),
        ({"op": "read", "records": [[0, 7]]}, "an entry of 'records' must be"),
        ({"op": "read", "records": [7]}, "an entry of 'records' must be"),
        ({"op": "read", "records": [{"0": 1}]}, "an entry of 'records' must be"),
        ({"op": "commit", "group": "g", "offsets": [["t", 0, "1"]]}, "'offset' must be an integer"),
        ({"op": "commit", "group": "g", "offsets": [["t", 0, 1]], "txn": "T"}, "unknown transaction 'T'"),
        ({"op": "assigned", "group": "g", "generation": 1, "partitions": [[["t"], 0]]}, "a topic must be a string"),
    ],
)
def test_invalid_operation_is_reported_with_file_and_line(tmp_path, change, message):
    text = refused(
        tmp_path, json.dumps(SEND | {"client": "other", "value": "w", "offset": 9}), json.dumps(SEND | change)
    )
    assert text.startswith("/h.jsonl:2: ")
    assert message in text


def test_lines_other_than_json_objects_are_rejected(tmp_path):
    assert "invalid JSON" in refused(tmp_path, "{")
    assert "invalid JSON" in refused(tmp_path, "[" * 100_000)
    assert "invalid JSON" in refused(tmp_path, "\xff".encode().decode("latin-1") * 3)
    assert "expected a JSON object" in refused(tmp_path, "[]")
    assert "bytes" in refused(tmp_path, " " * 10 + "x" * LONGEST_LINE)


def test_duplicate_value_and_duplicate_client_are_rejected(tmp_path):
    assert "'v' is sent twice" in refused(tmp_path, json.dumps(SEND), json.dumps(SEND))
    assert "use a new client name" in refused(tmp_path, *[json.dumps({"op": "client", "client": "p"})] * 2)


def test_transaction_of_two_clients_is_rejected(tmp_path):
    begins = [json.dumps({"op": "begin", "client": c, "txn": "T", "at": 1}) for c in ("p", "q")]
    assert "transaction 'T' belongs to another client" in refused(tmp_path, *begins)


def test_torn_last_line_is_skipped_and_counted(tmp_path):
    path = tmp_path / "torn.jsonl"
    path.write_text(json.dumps(SEND) + "\n\n" + json.dumps(SEND)[:20])
    found = check_history([path])
    assert (found.operations, found.torn, found.anomalies) == (1, 1, ())


def test_missing_file_is_named_in_the_error(tmp_path):
    with pytest.raises(HistoryUnreadable, match=r"nowhere\.jsonl: No such file or directory"):
        check_history([tmp_path / "nowhere.jsonl"])


def test_each_client_may_have_its_own_file(tmp_path):
    ticks = iter(range(1000))
    paths = [tmp_path / "producer.jsonl", tmp_path / "reader.jsonl"]
    with paths[0].open("w") as file:
        producer = ClientHistory(file, "p", lambda: next(ticks), idempotent=True)
        for number in range(3):
            at = next(ticks)
            producer.sent(at, ("t", 0), f"p:{number}", "begun")
            producer.sent(at, ("t", 0), f"p:{number}", "ok", offset=number)
    with paths[1].open("w") as file:
        reader = ClientHistory(file, "r", lambda: next(ticks), isolation="read_committed")
        reader.ownership("assigned", next(ticks), "g", [("t", 0)], generation=1)
        reader.read(next(ticks), ("t", 0), [(0, "p:0"), (2, "p:2")])
        reader.committed(next(ticks), "g", {("t", 0): 3}, "ok", generation=1)
    found = check_history(paths)
    assert found.counts == {"lost-record": 1}
    assert [proof.place for proof in found.anomalies[0].evidence] == [f"{paths[0]}:5", f"{paths[1]}:3"]


def test_times_of_different_clocks_are_not_compared(tmp_path):
    history = WrittenHistory()
    one, other = history.client("one", clock="here"), history.client("other", clock="there")
    one.has(1, 0)
    one.commits(0)
    other.has(2, 5)
    one.gives_up()
    assert history.checked(tmp_path).anomalies == ()


def test_all_anomalies_are_counted_and_the_first_ones_returned(tmp_path):
    history = WrittenHistory()
    producer, reader = history.client("p"), history.client("r")
    for number in range(100):
        producer.sends(f"p:{number}", number)
    reader.add("seek", topic="t", partition=0, offset=0)
    reader.reads(position=100)
    found = history.checked(tmp_path)
    assert found.counts == {"lost-record": 100}
    assert len(found.anomalies) == 10


@pytest.mark.heavy
def test_values_and_offsets_of_any_spelling_are_distinguished(tmp_path):
    history = WrittenHistory()
    producer, reader = history.client("p"), history.client("r")
    values = [
        "p:0",
        "p:00",
        "p:7777777",
        "p:12345678901",
        "p:",
        "p",
        ":1",
        "p:1:1",
        "p:٣",
        *(f"p:{n}" for n in range(1, 5000)),
    ]
    offsets = [number * 10**6 for number in range(len(values))]
    for value, offset in zip(values, offsets, strict=True):
        producer.sends(value, offset)
        reader.add("seek", topic="t", partition=0, offset=offset)
        reader.reads((offset, value))
    found = history.checked(tmp_path)
    assert (found.values, found.counts) == (len(values), {})
