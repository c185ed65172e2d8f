import pytest

import kohort
from kohort import NewTopic
from kohort.console.topic_queries import APART_S, MOST_TOPICS, OLDEST_S, OffsetRates
from kohort.verbs import searching
from support.console_client import in_path

TOPIC = "notes"
EVIL = '<img src=x onerror="alert(1)">'


@pytest.fixture
def notes(broker):
    """Topic with 30 records in 3 partitions: text, JSON, bytes, null, and markup."""
    values = [b"plain", b'{"id": 12345678901234567890}', b"\x00\xff", None, EVIL.encode()]
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, 3, configs={"retention.ms": "60000", "cleanup.policy": "compact"})])
    with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for n in range(30):
            headers = [("trace", f"t-{n}".encode())] if n % 2 else [(EVIL, b"\xff")]
            at_ms = 1_700_000_000_000 + n * 1_000
            producer.send(
                TOPIC, values[n % 5], key=f"key-{n}".encode(), partition=n % 3, headers=headers, timestamp_ms=at_ms
            )
        producer.flush(60_000)
    return TOPIC


def offsets(answer):
    return sorted((one["partition"], one["offset"]) for one in answer["records"])


def search_on(client, way, query):
    """Return the records of a search and of all its continuations, ``earlier`` or ``later``."""
    found, answers, ranges = [], 0, None
    while ranges is not None or not answers:
        more = "" if ranges is None else f"&ranges={ranges}"
        content = client.get(f"/topics/{TOPIC}/records?{query}{more}").json
        found, ranges, answers = found + content["records"], content[way], answers + 1
    return sorted((one["partition"], one["offset"]) for one in found), answers


def test_topic_list_has_size_configuration_and_groups(orders, notes, client):
    content = client.get("/topics").json
    rows = {row["name"]: row for row in content["topics"]}
    assert (content["left_out"], [row["internal"] for row in content["topics"]]) == (
        0, sorted(row["internal"] for row in content["topics"]),
    )  # fmt: skip
    row = rows[notes]
    assert (row["partitions"], row["offsets"], row["without_leader"], row["out_of_sync"]) == (3, 30, 0, 0)
    assert (row["cleanup_policy"], row["retention_ms"]) == ("compact", "60000")
    assert row["size_bytes"] > 300
    assert row["groups"] == []
    (group,) = rows["orders"]["groups"]
    assert (group["group"], group["lag"], group["lag_unknown"], group["members"]) == ("billing", 0, 0, 0)
    assert "rate" in row["unknown"]
    assert row["records_per_s"] is None


def test_topic_answer_has_partitions_and_overridden_options_first(notes, client):
    content = client.get(f"/topics/{notes}").json
    assert [(p["partition"], p["log_start_offset"], p["log_end_offset"]) for p in content["partitions"]] == [
        (0, 0, 10), (1, 0, 10), (2, 0, 10),
    ]  # fmt: skip
    assert all(p["size_bytes"] > 100 and p["isr"] == p["replicas"] for p in content["partitions"])
    names = [(one["name"], one["source"]) for one in content["options"]]
    assert names[:2] == [("cleanup.policy", "topic"), ("retention.ms", "topic")]
    assert all(source != "topic" for _, source in names[2:])
    assert content["topic"]["unknown"].keys() <= {"rate"}


def test_node_answer_has_size_of_logs(notes, client):
    (node,) = client.get("/nodes").json["nodes"]
    assert node["log_bytes"] > 300
    assert node["replicas"] >= 3
    assert node["logs_unknown"] is None


def test_records_without_parameters_are_the_last_of_each_partition(notes, client, monkeypatch):
    monkeypatch.setattr("kohort.console.topic_queries.MOST_MATCHES", 6)
    content = client.get(f"/topics/{notes}/records").json
    assert offsets(content) == [(p, o) for p in range(3) for o in (8, 9)]
    assert [one["timestamp_ms"] for one in content["records"]] == sorted(
        one["timestamp_ms"] for one in content["records"]
    )
    assert (content["later"], content["earlier"], content["stopped"]) == (None, "0:6-8,1:6-8,2:6-8", None)
    every, answers = search_on(client, "earlier", "")
    assert every == [(p, o) for p in range(3) for o in range(10)]
    assert answers == 5


def test_records_start_at_offset_or_time(notes, client):
    content = client.get(f"/topics/{notes}/records?partition=1&offset=7").json
    assert offsets(content) == [(1, 7), (1, 8), (1, 9)]
    content = client.get(f"/topics/{notes}/records?time=1700000025000").json
    assert offsets(content) == [(0, 9), (1, 8), (1, 9), (2, 8), (2, 9)]
    assert offsets(client.get(f"/topics/{notes}/records?time=1900000000000").json) == []
    assert len(client.get(f"/topics/{notes}/records?start=first").json["records"]) == 30


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("text=PLAIN", 6),
        ("text=PLAIN&in=key,headers", 0),
        ("text=key-7&in=key", 1),
        ("text=t-7&in=headers", 1),
        ("text=onerror", 18),
        ("text=onerror&in=value", 6),
        ("text=nothing+has+this", 0),
    ],
)
def test_search_finds_text_in_chosen_parts(notes, client, query, count):
    content = client.get(f"/topics/{notes}/records?{query}").json
    assert len(content["records"]) == count
    assert content["searched_records"] == 30
    assert {(one["first"], one["until"]) for one in content["searched"]} == {(0, 10)}
    assert (content["earlier"], content["later"], content["stopped"]) == (None, None, None)


@pytest.mark.parametrize(("limit", "value"), [("records", 7), ("bytes", 200), ("matches", 4)])
def test_search_stops_at_limit_and_continues_without_gap(notes, client, monkeypatch, limit, value):
    monkeypatch.setattr(searching, f"MOST_{limit.upper()}", value)
    content = client.get(f"/topics/{notes}/records?text=key&start=first").json
    assert content["stopped"] == limit
    assert content["searched_records"] < 30
    every, answers = search_on(client, "later", "text=key&start=first")
    assert every == [(p, o) for p in range(3) for o in range(10)]
    assert answers > 1


def test_search_stops_at_time_limit_and_names_it(notes, client, monkeypatch):
    monkeypatch.setattr(searching, "MOST_S", -1.0)
    monkeypatch.setattr(searching, "POLL_MS", 0)
    content = client.get(f"/topics/{notes}/records?text=key").json
    assert content["stopped"] == "time"
    assert content["later"] is not None


def test_records_are_text_or_base64_and_long_ones_are_cut(broker, client):
    long = "\u00e4".encode() * searching.LONGEST
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({TOPIC: 1})
    with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
        many = [(f"h{n}", b"\x00" * 2_000) for n in range(searching.MOST_HEADERS + 3)]
        producer.send(TOPIC, b"x" + long, key=b"\xfe\xff", headers=many)
        producer.flush(60_000)
    (record,) = client.get(f"/topics/{TOPIC}/records").json["records"]
    assert record["key"] == {"base64": "/v8="}
    assert record["value_size"] == 1 + len(long)
    assert set(record["value"]) == {"x", "\u00e4"}
    assert len(record["value"].encode()) <= searching.LONGEST
    assert (len(record["headers"]), record["headers_left_out"]) == (searching.MOST_HEADERS, 3)
    assert record["headers"][0]["size"] == 2_000
    assert len(record["headers"][0]["value"]) == searching.LONGEST_HEADER


def test_search_passes_offsets_without_records(broker, client):
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({TOPIC: 1})
    with kohort.Producer(bootstrap_servers=broker.bootstrap, transactional_id="one") as producer:
        producer.init_transactions()
        for n in range(3):
            producer.begin_transaction()
            producer.send(TOPIC, f"value-{n}".encode())
            producer.commit_transaction()
    content = client.get(f"/topics/{TOPIC}/records?text=value").json
    assert (content["searched_records"], [one["until"] for one in content["searched"]]) == (3, [6])
    assert offsets(content) == [(0, 0), (0, 2), (0, 4)]


def test_topic_with_too_many_partitions_needs_choice_of_partition(broker, client, monkeypatch):
    monkeypatch.setattr(searching, "MOST_PARTITIONS", 2)
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({TOPIC: 3})
    response = client.get(f"/topics/{TOPIC}/records")
    assert (response.status, response.json["error"]) == (400, f"topic '{TOPIC}' has 3 partitions: choose one of them")
    assert client.get(f"/topics/{TOPIC}/records?partition=2").status == 200


def test_topics_above_limit_are_counted(notes, client, monkeypatch):
    with_all = client.get("/topics").json["topics"]
    monkeypatch.setattr("kohort.console.topic_queries.MOST_TOPICS", 1)
    content = client.get("/topics").json
    assert (len(content["topics"]), content["left_out"]) == (1, len(with_all) - 1)


def test_offsets_of_partitions_above_limit_are_unknown(notes, client, monkeypatch):
    monkeypatch.setattr("kohort.console.topic_queries.MOST_PARTITIONS", 2)
    content = client.get(f"/topics/{notes}").json
    assert [p["log_end_offset"] for p in content["partitions"]] == [10, 10, None]
    assert (content["topic"]["offsets"], content["topic"]["size_bytes"]) == (None, None)
    assert "more partitions" in content["topic"]["unknown"]["offsets"]


def test_rate_of_topic_is_growth_since_an_earlier_query():
    now = [100.0]
    rates = OffsetRates(lambda: now[0])
    assert rates.add({"a": 10, "b": 5}) == {}
    now[0] += 5
    assert rates.add({"a": 60, "b": 5}) == {"a": 10.0, "b": 0.0}
    now[0] += APART_S
    assert rates.add({"a": 60, "c": 1}) == {"a": 50 / (5 + APART_S)}


def test_rate_is_unknown_after_topic_was_created_again_or_long_pause():
    now = [100.0]
    rates = OffsetRates(lambda: now[0])
    rates.add({"a": 1_000})
    now[0] += 5
    assert rates.add({"a": 3}) == {}
    now[0] += 5
    assert rates.add({"a": 13}) == {"a": 2.0}
    now[0] += OLDEST_S + 1
    assert rates.add({"a": 14}) == {}


def test_rates_keep_samples_of_limited_number_of_topics():
    rates = OffsetRates(lambda: 1.0)
    for n in range(MOST_TOPICS + 10):
        rates.add({f"t-{n}": n})
    assert len(rates._samples) == MOST_TOPICS


def test_hostile_topic_names_are_not_found_as_text(client):
    for name in (EVIL, "a/b", "\u202e", "x" * 30_000, "../groups"):
        response = client.get(f"/topics/{in_path(name)}/records")
        assert response.status in (400, 404, 409), (name[:20], response.body)
        assert response.headers["content-type"] == "application/json"
