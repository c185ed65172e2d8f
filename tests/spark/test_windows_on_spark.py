"""Stateful pipelines on a real Spark: windows, and a join of two streams whose rows are counted in windows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kohort.spark.pipeline.file_tests import dry_run_frame, run_test
from kohort.spark.pipeline.frames import StepFailed
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.pipeline.running.run import run_pipeline
from kohort.spark.pipeline.running.stateful import check_streams, result_frame

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

SALES = """\
name: sales
brokers: "${BROKERS}"
sources:
  orders:
    topics: ["${ORDERS}"]
    group: "${ORDERS}"
    limit: {rows: 4}
    decode: {format: json, schema: "id long, country string, at timestamp"}
    watermark: {column: at, delay: 1 minute}
steps:
  - sql: select country, id, at as moment from input
  - window: {time: moment, size: 1 minute, by: [country], agg: {n: count(*), last: max(id)}}
expect:
  - {check: n > 0, else: fail}
sinks:
  - parquet: {path: out}
    name: table
    counts: n
dlq: {topic: "${ORDERS}-dead"}
checkpoint: state
tests:
  - name: two countries, two minutes
    given:
      - {value: {id: 1, country: FR, at: "2026-01-01T00:00:10Z"}}
      - {value: {id: 2, country: FR, at: "2026-01-01T00:00:50Z"}}
      - {value: {id: 3, country: US, at: "2026-01-01T00:01:00Z"}}
      - {raw: "no"}
    expect:
      rows:
        - {country: FR, n: 2, last: 2, window_start: 2026-01-01T00:00:00Z, window_end: 2026-01-01T00:01:00Z}
        - {country: US, n: 1}
      dlq: [{stage: decode, value: "no"}]
"""

PAID = """\
name: paid
brokers: "${BROKERS}"
sources:
  orders:
    topics: ["${ORDERS}"]
    group: "${ORDERS}"
    decode: {format: json, schema: "id long, at timestamp"}
    watermark: {column: at, delay: 1 minute}
  payments:
    topics: ["${PAYMENTS}"]
    group: "${PAYMENTS}"
    decode: {format: json, schema: "order_id long, paid timestamp"}
    watermark: {column: paid, delay: 1 minute}
steps:
  - sql: >-
      select o.id, o.at, p.paid from orders o join payments p
      on o.id = p.order_id and p.paid between o.at and o.at + interval 5 minutes
  - window: {time: at, size: 1 minute, agg: {n: count(*)}}
sinks: [{topic: {topic: "${ORDERS}-paid", key: n}}]
dlq: {topic: "${ORDERS}-dead"}
checkpoint: state
"""


def at(minute: int, **row: Any) -> tuple[bytes | None, bytes | None]:
    name = "paid" if "order_id" in row else "at"
    return b"k", json.dumps({**row, name: f"2026-01-01T00:{minute:02}:30Z"}).encode()


@pytest.mark.campaign
def test_closed_windows_are_written_and_rows_of_open_windows_stay_in_spark_state(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    orders = cluster.new_topic(partitions=1)
    first = [at(0, id=1, country="FR"), at(0, id=2, country="FR"), at(1, id=3, country="US"), (b"x", b"no")]
    second = [
        at(9, id=4, country="FR"),
        at(9, id=5, country="FR"),
        at(0, id=6, country="FR"),
        at(9, id=7, country="FR"),
    ]
    # Spark uses the watermark of the previous micro-batch, so ids 6 and 8 are not late.
    cluster.produce(orders, [*first, *second, at(0, id=8, country="FR")])
    environ = {"BROKERS": cluster.bootstrap, "ORDERS": orders}
    pipeline = parse_pipeline(SALES, tmp_path / "sales.yaml", environ)

    assert run_test(pipeline, pipeline.tests[0], spark) == []
    assert dry_run_frame(pipeline, spark).columns == ["window_start", "window_end", "country", "n", "last"]
    report = run_pipeline(pipeline, spark, once=True)

    assert report.balanced, report.as_json()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {(r["country"], r["window_start"].minute): r["n"] for r in rows} == {("FR", 0): 4, ("US", 1): 1}
    ledger = report.ledger
    assert (ledger.rows_in, ledger.undecoded, ledger.dead_letters, ledger.late) == (9, 1, 1, 0)
    assert ledger.held == {"table": 3}, "the window of minute 9 is open"
    assert report.lag == {"orders": 0}


@pytest.mark.campaign
def test_two_streams_are_joined_within_their_watermarks_and_counted_in_windows(
    spark: Any, cluster: Any, tmp_path: Path
) -> None:
    orders, payments = cluster.new_topic(partitions=1), cluster.new_topic(partitions=1)
    cluster.produce(orders, [at(0, id=1), at(1, id=2), at(1, id=3), at(31, id=4)])
    cluster.produce(payments, [at(1, order_id=1), at(30, order_id=2), at(2, order_id=3)])
    environ = {"BROKERS": cluster.bootstrap, "ORDERS": orders, "PAYMENTS": payments}

    pipeline = parse_pipeline(PAID, tmp_path / "paid.yaml", environ)

    assert dry_run_frame(pipeline, spark).columns == ["window_start", "window_end", "n"]
    report = run_pipeline(pipeline, spark, once=True)

    assert report.balanced, report.as_json()
    assert (report.ledger.sources, report.ledger.sinks) == ({"orders": 4, "payments": 3}, {"topic": 2})
    assert report.lag == {"orders": 0, "payments": 0}


TWO_WINDOWS = SALES.replace("expect:", "  - window: {time: window_start, size: 1 hour, agg: {n: sum(n)}}\nexpect:", 1)
OUTER = PAID.replace("o join payments p", "o left join payments p").replace(
    " and p.paid between o.at and o.at + interval 5 minutes", ""
)


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(TWO_WINDOWS, "the column window_start has no watermark", id="a window over windows"),
        pytest.param(
            OUTER, "Spark cannot run these steps on streams: .*LeftOuter join", id="an outer join without bounds"
        ),
    ],
)
def test_unsupported_streaming_plan_is_rejected_before_the_run(
    text: str, message: str, spark: Any, cluster: Any, tmp_path: Path
) -> None:
    environ = {"BROKERS": cluster.bootstrap, "ORDERS": cluster.new_topic(), "PAYMENTS": cluster.new_topic()}
    pipeline = parse_pipeline(text, tmp_path / "some.yaml", environ)

    dry_run_frame(pipeline, spark)
    with pytest.raises(StepFailed, match=message):
        check_streams(result_frame(spark, pipeline), pipeline)
    with pytest.raises(StepFailed, match=message):
        run_pipeline(pipeline, spark, once=True)
