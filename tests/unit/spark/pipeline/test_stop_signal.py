"""Ctrl-C: the first is noted, the second does what it did before."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kohort.spark.pipeline.ledger import Entry, LedgerStore
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.pipeline.running.batches import BatchRunner, RunEnds
from kohort.spark.pipeline.running.process import StopSignal
from support.waiting import eventually

ORDERS = """\
name: orders
source: {brokers: "localhost:9092", topics: [orders]}
sinks: [{noop: }]
"""


def test_the_first_is_noted_and_said_the_second_is_raised(capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)

    with StopSignal("ending") as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.asked.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    assert signal.getsignal(signal.SIGINT) is before
    assert capfd.readouterr().err == "ending\n"


def test_one_that_is_ignored_stays_ignored() -> None:
    """In the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopSignal() as stop:
            signal.raise_signal(signal.SIGINT)
            assert not stop.asked.is_set()
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("of_ctrl_c", [signal.SIG_IGN, signal.default_int_handler])
def test_sigterm_is_noted_whether_ctrl_c_is_ignored_or_not(of_ctrl_c: Any) -> None:
    before = signal.signal(signal.SIGINT, of_ctrl_c)
    second: list[int] = []
    of_sigterm = signal.signal(signal.SIGTERM, lambda number, _: second.append(number))
    try:
        with StopSignal() as stop:
            signal.raise_signal(signal.SIGTERM)
            assert (stop.asked.is_set(), second) == (True, [])
            signal.raise_signal(signal.SIGTERM)
            assert second == [signal.SIGTERM]
        signal.raise_signal(signal.SIGTERM)
        assert len(second) == 2
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, of_sigterm)


def test_second_sigterm_ends_a_program_that_has_no_handler_of_it() -> None:
    program = """
import signal
from kohort.spark.pipeline.running.process import StopSignal
with StopSignal("ending"):
    signal.raise_signal(signal.SIGTERM)
    print("goes on", flush=True)
    signal.raise_signal(signal.SIGTERM)
    print("not reached")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "goes on\n", "ending\n")


def test_in_another_thread_it_does_nothing() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def run() -> None:
        with StopSignal():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    assert seen == [before]


@pytest.mark.parametrize(("number", "ignored"), [("SIGINT", False), ("SIGTERM", False), ("SIGTERM", True)])
def test_a_command_ends_at_once_whatever_handler_pyspark_has_put_in_place(number: str, ignored: bool) -> None:
    program = f"""
import signal
if {ignored}:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
from kohort.cli.terminal.exits import sigterm_interrupts
from kohort.spark.pipeline.running.process import StopSignal, ends_at_once
with sigterm_interrupts(), ends_at_once(130) as install:
    signal.signal(signal.SIGINT, lambda *_: print("pyspark's"))
    install()
    with StopSignal("ending"):
        signal.raise_signal(signal.{number})
        print("goes on", flush=True)
        signal.raise_signal(signal.{number})
        print("not reached")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, "goes on\n", "ending\n\n")


class Slow(BatchRunner):
    """Micro-batches that wait until they may be done."""

    began = threading.Event()
    may_end = threading.Event()

    def _run(self, raw: Any, batch: int) -> Entry:
        self.began.set()
        assert self.may_end.wait(60)
        return Entry(batch)


def test_a_run_ends_when_the_micro_batch_under_way_is_done_and_noted_and_begins_no_other(tmp_path: Path) -> None:
    pipeline = parse_pipeline(ORDERS, tmp_path / "orders.yaml", {})
    runner = Slow(pipeline, LedgerStore(tmp_path / "ledger"))
    spark = threading.Thread(target=runner, args=(None, 7))
    ending = threading.Thread(target=runner.end, args=(60,))
    spark.start()
    assert runner.began.wait(60)
    ending.start()
    eventually(lambda: runner._ends, "it is asked to end")
    runner.may_end.set()
    with pytest.raises(RunEnds):
        runner(None, 8)  # type: ignore[arg-type]  # no rows: refused before they are looked at

    spark.join(60)
    assert [entry.batch for entry in runner.entries] == [7]
    assert runner.error is None
    assert ending.is_alive(), "Spark has not noted that it is complete"
    runner.complete(SimpleNamespace(batchId=7))
    ending.join(60)
    assert not ending.is_alive()
