"""The file that ``kohort pipeline init`` writes: a whole pipeline with a test, to be changed."""

from __future__ import annotations

from typing import Final

_TEXT: Final = """\
# From a topic to a table. Check: kohort pipeline validate; try: kohort pipeline test; run: kohort pipeline run.
version: 1
name: @NAME@
brokers: "${KOHORT_BROKERS:-localhost:9092}"

source:
  topics: [@TOPIC@]
  group: @NAME@            # its lag shows how far this pipeline is
  start: earliest          # or latest, or group
  limit: {rows: 200000}    # of one micro-batch

decode: {format: json, schema: "id long, country string, amount double, ts timestamp"}

steps:
  - sql: select *, round(amount * 1.2, 2) as with_tax from input

expect:
  - {not_null: id}                                           # a row without id becomes a dead letter
  - {check: amount >= 0, else: drop, reason: negative}

sinks:
  - parquet: {path: "out/@NAME@"}

dlq: {topic: @TOPIC@-dlq}
trigger: available-now     # or {every: 2 seconds}
checkpoint: state

tests:
  - name: tax is added, bad rows are set aside
    given:
      - {value: {id: 1, country: FR, amount: 10.0, ts: "2026-01-01T00:00:00Z"}}
      - {value: {id: 2, country: FR, amount: -1.0}}
      - {value: {country: FR, amount: 1.0}}
      - {raw: not json}
    expect:
      rows: [{id: 1, with_tax: 12.0}]
      dlq: [{stage: expect, reason: id is null}, {stage: decode}]
      dropped: 1
"""


def starter(name: str, topic: str) -> str:
    """Return a pipeline called ``name`` that reads ``topic``."""
    return _TEXT.replace("@NAME@", name).replace("@TOPIC@", topic)
