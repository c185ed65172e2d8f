from __future__ import annotations

import json
from pathlib import Path

from kohort.spark.pipeline.ledger import Count, Entry, LedgerStore, problems_of, total


def marked(*rows: int) -> Count:
    return sum((Count(1, row) for row in rows), start=Count())


def balanced() -> Entry:
    return Entry(
        batch=4,
        rows_in=marked(1, 2, 3, 4, 5, 6),
        undecoded=marked(1),
        stepped=marked(2, 3, 4, 5, 6),
        passed=marked(4, 5, 6),
        dropped={"negative": marked(3)},
        quarantined={"no id": marked(2)},
        sinks={"table": 3, "topic": 3},
        dead_letters=2,
    )


def test_ledger_balances_input_rows_with_output_rows_dead_letters_and_dropped_rows() -> None:
    assert problems_of(balanced()) == []

    ledger = total([balanced(), balanced()])

    assert (ledger.rows_in, ledger.sinks, ledger.dead_letters) == (12, {"table": 6, "topic": 6}, 4)
    assert (ledger.dropped, ledger.quarantined, ledger.balanced) == ({"negative": 2}, {"no id": 2}, True)


def test_ledger_reports_rows_that_are_missing_after_a_step_that_must_not_filter() -> None:
    entry = balanced()
    entry.stepped, entry.passed, entry.sinks = marked(2, 3, 4), marked(4), {"table": 1, "topic": 1}

    assert problems_of(entry) == ["the steps lost 2 of 5 rows; if that is intended, set filters: true at the step"]
    assert problems_of(entry, filters=True) == []
    assert total([entry], filters=True).filtered == 2


def test_ledger_reports_rows_that_a_join_duplicated() -> None:
    entry = balanced()
    entry.stepped, entry.passed = marked(2, 3, 4, 5, 6, 6), marked(4, 5, 6, 6)
    entry.sinks = {"table": 4}

    assert problems_of(entry) == ["the steps made 6 rows out of 5: does a join match a row twice?"]


def test_ledger_reports_a_lost_row_even_if_another_row_is_duplicated() -> None:
    entry = balanced()
    entry.stepped, entry.passed = marked(2, 3, 4, 5, 5), marked(4, 5, 5)

    assert problems_of(entry) == ["the steps lost some rows and duplicated as many others"]


def test_ledger_reports_missing_rows_of_a_sink_and_missing_dead_letters() -> None:
    entry = balanced()
    entry.sinks["table"], entry.dead_letters = 2, 1

    assert problems_of(entry) == [
        "sink table wrote 2 of 3 rows",
        "2 rows must become dead letters, but 1 dead letters were acknowledged",
    ]
    assert total([entry]).problems[0] == "batch 4: sink table wrote 2 of 3 rows"


def test_ledger_counts_redelivered_rows_and_stays_balanced(tmp_path: Path) -> None:
    entry, more = balanced(), balanced()
    entry.redelivered = 5

    ledger = total([entry, more])

    assert (ledger.rows_in, ledger.redelivered, ledger.balanced) == (12, 5, True)
    assert ledger.as_json()["redelivered"] == 5
    LedgerStore(tmp_path).write(entry)
    assert LedgerStore(tmp_path).entries() == [entry]
    more.redelivered = 7
    assert problems_of(more) == ["7 redelivered rows, but only 6 rows read"]


def test_repeated_micro_batch_replaces_its_ledger_entry(tmp_path: Path) -> None:
    store = LedgerStore(tmp_path / "ledger")
    first, again = balanced(), balanced()
    first.sinks = {"table": 0}

    store.write(first)
    store.write(again)

    assert store.entries() == [again]
    assert json.loads((tmp_path / "ledger" / "0000000004.json").read_text())["batch"] == 4
