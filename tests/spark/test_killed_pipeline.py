"""A pipeline writes each row exactly once, even if its driver is killed at any time and restarted."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kohort import Admin, Broker, Consumer, Producer, TopicPartition
from kohort.spark.pipeline.running.run import WORKER_TOO_SLOW
from support.processes.member_process import eventually
from support.processes.pipeline_process import PipelineProcess, last_run, ledger_of, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(7200)]

PARTITIONS = 3
ROWS_PER_S = 100
LIMIT = 400
"""Maximum number of rows in a micro-batch."""
BAD_EVERY = 50
"""One in BAD_EVERY records is not JSON and becomes a dead letter."""
WAIT_S = 600.0
MOMENTS = ("it starts", "it goes on", "rows are written")
"""Events after which the test kills a run: the run starts, it completes a micro-batch, or it writes rows that Spark
has not committed yet.
"""
LONGEST_S = 4.0
LEDGER, WRITTEN = "state/orders/ledger/*.json", "out/batch-*.parquet"
ENDS_MOST = 4
"""Maximum number of attempts at the last run. On a busy machine Spark may fail because a worker starts too slowly."""
ORDERS = """\
name: orders
brokers: "${BROKERS}"
source:
  topics: [orders]
  group: orders
  limit:
    rows: ${LIMIT}
decode: {format: json, schema: "n long"}
steps:
  - sql: select *, _source.partition, _source.offset from input
expect:
  - {check: n % 10 <> 9, reason: nine}
sinks:
  - parquet: {path: out}
dlq: {topic: dead}
checkpoint: state
trigger: {every: 100 milliseconds}
"""


@contextmanager
def orders_coming(bootstrap: str) -> Iterator[list[bytes]]:
    """Send records until the ``with`` block ends. Yield the list of sent records, which grows until then."""
    sent: list[bytes] = []
    enough = threading.Event()

    def send() -> None:
        with Producer(bootstrap_servers=bootstrap) as producer:
            while not enough.wait(1 / ROWS_PER_S):
                n = len(sent)
                sent.append(b'{"n": %d}' % n if n % BAD_EVERY else b"no order: %d" % n)
                producer.send("orders", sent[-1], partition=n % PARTITIONS)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        enough.set()
        thread.join(60)


@pytest.mark.campaign
@pytest.mark.parametrize(("seed", "kills"), [(1, 3), (2, 20)])
def test_sink_has_each_row_once_if_the_driver_is_killed_at_any_time(seed: int, kills: int, tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(ORDERS)
    chance = random.Random(seed)
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"orders": PARTITIONS})
        with orders_coming(broker.bootstrap) as sent:
            for number in range(kills):
                if number % len(MOMENTS) == 0:
                    moments = chance.sample(MOMENTS, len(MOMENTS))
                run_and_kill(chance, tmp_path, broker.bootstrap, moments.pop(), f"killed-{number}.log")
        assert (tmp_path / "state" / "orders" / "ledger").exists(), "no run was long enough to complete a micro-batch"
        run_to_the_end(tmp_path, broker.bootstrap)
        check_rows(tmp_path, broker.bootstrap, sent)


def started(folder: Path, bootstrap: str, limit: int, *options: str, log: str) -> PipelineProcess:
    environ = {"BROKERS": bootstrap, "LIMIT": str(limit)}
    return PipelineProcess(folder / "orders.yaml", environ, *options, log=folder / log)


def run_and_kill(chance: random.Random, folder: Path, bootstrap: str, moment: str, log: str) -> None:
    driver_alone, pause_s = chance.random() < 0.5, chance.uniform(0, LONGEST_S)
    done, written = fresh(folder, LEDGER), fresh(folder, WRITTEN)
    run = started(folder, bootstrap, LIMIT, log=log)
    try:
        if moment == "rows are written":
            eventually(moment, lambda: goes_on(run) and fresh(folder, WRITTEN) - written, WAIT_S)
        else:
            if moment == "it goes on":
                eventually(moment, lambda: goes_on(run) and fresh(folder, LEDGER) - done, WAIT_S)
            time.sleep(pause_s)  # the random seed decides the time of the kill
        if driver_alone:
            run.kill_driver()
    finally:
        run.kill()


def goes_on(run: PipelineProcess) -> bool:
    run.check_runs()
    return True


def fresh(folder: Path, files: str) -> set[tuple[Path, int]]:
    """Return each matching file with its modification time, as a repeated micro-batch writes its files again."""
    found = set()
    for path in folder.glob(files):
        with suppress(FileNotFoundError):
            found.add((path, path.stat().st_mtime_ns))
    return found


def run_to_the_end(folder: Path, bootstrap: str) -> None:
    for attempt in range(ENDS_MOST):
        run = started(folder, bootstrap, 50 * LIMIT, "--until-caught-up", log=f"end-{attempt}.log")
        try:
            code = run.process.wait(WAIT_S)
        finally:
            run.kill()
        if WORKER_TOO_SLOW not in run.printed:
            break
    assert code == 0, run.printed[-4000:]


def check_rows(folder: Path, bootstrap: str, sent: list[bytes]) -> None:
    good = {n for n in range(len(sent)) if n % BAD_EVERY and n % 10 != 9}
    rows = rows_of(folder / "out", ("n", "partition", "offset"))
    assert Counter(row["n"] for row in rows) == Counter(good), "each good row is in the sink exactly once"
    assert {(row["partition"], row["offset"]) for row in rows} == {(n % PARTITIONS, n // PARTITIONS) for n in good}

    ledger = ledger_of(folder / "state" / "orders")
    assert ledger.problems == []
    assert (ledger.rows_in, ledger.sinks) == (len(sent), {"parquet": len(good)})
    assert ledger.dead_letters == len(sent) - len(good)
    assert ledger.redelivered > 0, "a micro-batch killed after its rows were written is repeated"
    report = last_run(folder / "state" / "orders")
    assert (report["balanced"], report["lag"]) == (True, {"input": 0})

    letters = values_of(bootstrap, "dead")
    aside = {value for n, value in enumerate(sent) if n not in good}
    assert set(letters) == aside, "each bad row is a dead letter at least once"
    assert len(letters) - len(aside) <= LIMIT * len(list(folder.glob("killed-*.log"))), (
        "only dead letters of killed micro-batches are repeated"
    )


def values_of(bootstrap: str, topic: str) -> list[bytes]:
    with Consumer({"bootstrap.servers": bootstrap}) as consumer:
        first = TopicPartition(topic, 0)
        consumer.assign([first])
        consumer.seek_to_beginning([first])
        end = consumer.end_offsets([first])[first]
        found: list[bytes] = []
        while consumer.position(first) < end:
            found += [bytes(record.value) for record in consumer.poll(500) if record.value is not None]
    return found
