"""Summaries of campaigns, and their sum."""

from __future__ import annotations

from fuzz.summary import Done, added, inputs_by_entrance, read, write


def done(entrance="tokens", seed=0, code="a1", inputs=100, **more):
    usual = {"runs": inputs, "per_second": 50, "slowest_ms": 1.0, "memory_mb": 0.5, "found": 0}
    return Done(entrance, seed, code, inputs=inputs, **usual | more)


def test_campaigns_of_several_runs_add_up(tmp_path):
    write([done(seed=0), done(seed=1)], tmp_path)
    write([done(seed=2, inputs=30), done("schemas", inputs=7)], tmp_path)

    assert inputs_by_entrance(read(tmp_path), "a1") == {"tokens": 230, "schemas": 7}


def test_the_same_seed_counts_once_with_its_longer_campaign():
    assert inputs_by_entrance([done(inputs=100), done(inputs=40)], "a1") == {"tokens": 100}


def test_summaries_of_other_sources_do_not_count():
    assert inputs_by_entrance([done(), done(seed=1, code="a1+")], "a1") == {"tokens": 100}


def test_missing_summary_counts_as_zero(tmp_path):
    assert read(tmp_path) == []


def test_processes_that_share_an_entrance_are_one_row():
    whole = added([done(slowest_ms=2.0, found=1), done(seed=1, inputs=300, per_second=150, memory_mb=3.0)])

    assert (whole.inputs, whole.runs, whole.found) == (400, 400, 1)
    assert (whole.slowest_ms, whole.memory_mb) == (2.0, 3.0)
    assert whole.per_second == 100, "of two seconds each"
