from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

import kohort
from kohort import ConsumerGroup, Record, TopicPartition
from kohort.client.handling.failures import Failure
from support.waiting import eventually


@pytest.fixture
def letters(run, broker) -> Iterator[str]:
    """Dead letters of three payments: one ValueError, two KeyErrors."""
    for topic in ("payments", "payments-dlt"):
        run("topics", "create", topic, "--partitions", "2")
    with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for offset, error in enumerate(("ValueError", "KeyError", "KeyError")):
            failure = Failure(
                "payments", 1, offset, group="pay", attempts=3, stage="handler", exception=error, message="no \x1b[2J",
                stack="Traceback\n  line 1",
            )  # fmt: skip
            headers = [("trace", b"1"), *failure.headers()]
            producer.send("payments-dlt", f"v{offset}", key="k", partition=0, headers=headers)
    yield "payments-dlt"
    run("topics", "delete", "payments", "payments-dlt", "--yes")


def replayed(broker: kohort.Broker) -> list[Record]:
    """Return the records of the partition that the dead letters came from."""
    with kohort.Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        place = TopicPartition("payments", 1)
        consumer.assign([place])
        end = consumer.end_offsets([place])[place]
        found: list[Record] = []
        while consumer.position(place) < end:
            found += consumer.poll(100)
    return found


def forget(broker: kohort.Broker) -> None:
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.delete_groups(["payments-dlt-replay"], check=False)


def test_list_counts_dead_letters_by_origin_group_and_reason(run, ask, letters):
    found = ask("dead-letters", "list")["dead_letters"]

    assert [(c["topic"], c["origin"], c["group"], c["reason"], c["count"]) for c in found] == [
        ("payments-dlt", "payments", "pay", "KeyError", 2),
        ("payments-dlt", "payments", "pay", "ValueError", 1),
    ]
    newest = run("dead-letters", "list", "payments-dlt", "--max", "1")
    assert [line.split()[3:5] for line in newest.stdout.splitlines()[1:]] == [["KeyError", "1"]]
    assert "2 older offsets were not read: raise --max" in newest.stderr
    assert "UNKNOWN_TOPIC_OR_PARTITION" in run("dead-letters", "list", "absent-dlt", code=3).stderr


def test_show_prints_origin_reason_and_stack_of_a_dead_letter(run, ask, letters):
    shown = run("dead-letters", "show", "payments-dlt:0", "1")
    about = ask("dead-letters", "show", "payments-dlt:0", "1")

    assert "payments-1 at offset 1" in shown.stdout
    assert "  line 1" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert (about["reason"], about["attempts"], about["group"], about["value"]) == ("KeyError", 3, "pay", "v1")
    assert about["headers"][0] == {"name": "trace", "value": "1"}
    absent = run("dead-letters", "show", "payments-dlt:0", "9", code=3)
    assert "payments-dlt-0 has offsets 0 to 3 (excluded), not 9" in absent.stderr


def test_replay_sends_each_dead_letter_once_without_error_headers(run, broker, letters):
    dry = run("dead-letters", "replay", letters, "--dry-run")
    assert "3 dead letters to send back" in dry.stderr
    assert replayed(broker) == []

    first = run("dead-letters", "replay", letters, "--limit", "2")
    assert "2 dead letters sent back" in first.stderr
    run("dead-letters", "replay", letters)
    again = run("dead-letters", "replay", letters)

    assert "0 dead letters sent back" in again.stderr
    records = replayed(broker)
    assert [(r.key, r.value) for r in records] == [(b"k", b"v0"), (b"k", b"v1"), (b"k", b"v2")]
    assert records[1].headers == (("trace", b"1"), ("__dlq.replayed.from", b"payments-dlt-0:1"))
    forget(broker)


def test_filtered_replay_commits_nothing_and_names_next_offsets(run, ask, broker, letters):
    chosen = ("dead-letters", "replay", letters, "--reason", "KeyError", "--to-offset", "1")

    shown = run(*chosen)

    assert "1 dead letters sent back" in shown.stderr
    assert "not committed: the next replay sends them again; it would continue with payments-dlt:0 at 2" in shown.stderr
    assert [r.value for r in replayed(broker)] == [b"v1"]
    found = ask("dead-letters", "replay", letters, "--from-offset", "2", "--dry-run")
    assert found["replayed"] == [{"origin": "payments", "reason": "KeyError", "count": 1}]
    assert (found["group"], found["dry_run"]) == (None, True)


def test_replay_from_an_offset_above_the_log_end_sends_nothing(run, broker, letters):
    above = run("dead-letters", "replay", letters, "--from-offset", "9")
    empty = run("dead-letters", "replay", letters, "--from-offset", "3", "--to-offset", "2", code=2)
    assert "--from-offset 3 is above --to-offset 2" in empty.stderr

    assert "0 dead letters sent back" in above.stderr
    assert replayed(broker) == []


def test_replay_sends_a_dead_letter_larger_than_the_default_request(run, broker, letters):
    limit = {"max.message.bytes": "5000000"}
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_configs({kohort.ConfigResource("topic", name): limit for name in ("payments", letters)})
    value = random.Random(1).randbytes(2_000_000)
    failure = Failure("payments", 1, 3, exception="ValueError")
    with kohort.Producer(bootstrap_servers=broker.bootstrap, max_request_size=5_000_000) as producer:
        producer.send(letters, value, headers=failure.headers(), partition=1).result()

    run("dead-letters", "replay", letters, "--from-offset", "0")

    assert value in [record.value for record in replayed(broker)]


def test_replay_writes_only_to_named_origin_topics(run, broker, letters):
    with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send(letters, "forged", partition=0, headers=Failure("__consumer_offsets", 0, 0).headers())
        producer.send(letters, "foreign", partition=0)
        producer.send(letters, None, partition=0, headers=Failure("payments", 1, 9).headers())
    run("topics", "create", "failed")

    shown = run("dead-letters", "replay", letters)

    assert "2 of other origins skipped: --origin with --from-offset selects them" in shown.stderr
    assert "1 tombstones skipped" in shown.stderr
    assert len(replayed(broker)) == 3
    other = run("dead-letters", "replay", "failed", code=2)
    assert "topic 'failed' does not end in -dlt: name the origin topic with --origin" in other.stderr
    forget(broker)


def test_replayed_record_is_handled_and_fails_into_a_new_dead_letter(run, ask, broker, letters):
    run("dead-letters", "replay", letters, "--limit", "1")
    seen: list[bytes | None] = []

    def handle(record: Record) -> None:
        seen.append(record.value)
        raise ValueError("again")

    with ConsumerGroup(bootstrap_servers=broker.bootstrap, group_id="pay", auto_offset_reset="earliest") as group:
        options = {"attempts": 1, "dead_letters": True}
        member = threading.Thread(target=group.handle, args=("payments", handle), kwargs=options, daemon=True)
        member.start()
        eventually(lambda: sum(c["count"] for c in ask("dead-letters", "list", letters)["dead_letters"]) == 4)
        group.stop()
        member.join(60)

    assert seen == [b"v0"]
    about = ask("dead-letters", "show", "payments-dlt:1", "0")
    assert (about["origin"], about["reason"]) == ("payments-1 at offset 0", "ValueError")
    forget(broker)
