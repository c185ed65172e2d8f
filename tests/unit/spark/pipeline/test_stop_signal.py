"""Signals during a run. The first Ctrl-C stops the run after the micro-batch in flight, a second one at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from kohort.spark.pipeline.ledger import Entry, LedgerStore
from kohort.spark.pipeline.parse import parse_pipeline
from kohort.spark.pipeline.running.batches import BatchRunner, RunStopping
from kohort.spark.pipeline.running.process import StopRequest
from support.waiting import eventually

ORDERS = """\
name: orders
source: {brokers: "localhost:9092", topics: [orders]}
sinks: [{noop: }]
"""


def test_first_ctrl_c_sets_stop_flag_and_second_raises_keyboard_interrupt(capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)

    with StopRequest("ending") as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.requested.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    assert signal.getsignal(signal.SIGINT) is before
    assert capfd.readouterr().err == "ending\n"


def test_ignored_sigint_stays_ignored_during_a_pipeline_run() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGINT)
            assert not stop.requested.is_set()
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("of_ctrl_c", [signal.SIG_IGN, signal.default_int_handler])
def test_sigterm_sets_the_stop_flag_even_if_ctrl_c_is_ignored(of_ctrl_c: Any) -> None:
    before = signal.signal(signal.SIGINT, of_ctrl_c)
    second: list[int] = []
    of_sigterm = signal.signal(signal.SIGTERM, lambda number, _: second.append(number))
    try:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGTERM)
            assert (stop.requested.is_set(), second) == (True, [])
            signal.raise_signal(signal.SIGTERM)
            assert second == [signal.SIGTERM]
        signal.raise_signal(signal.SIGTERM)
        assert len(second) == 2
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, of_sigterm)


def test_second_sigterm_ends_a_program_that_has_no_sigterm_handler() -> None:
    program = """
import signal
from kohort.spark.pipeline.running.process import StopRequest
with StopRequest("ending"):
    signal.raise_signal(signal.SIGTERM)
    print("goes on", flush=True)
    signal.raise_signal(signal.SIGTERM)
    print("not reached")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, "goes on\n", "ending\n")


def test_stop_request_outside_the_main_thread_installs_no_signal_handler() -> None:
    before = signal.getsignal(signal.SIGINT)
    handlers = []

    def run() -> None:
        with StopRequest():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    assert handlers == [before]


@pytest.mark.parametrize(("number", "ignored"), [("SIGINT", False), ("SIGTERM", False), ("SIGTERM", True)])
def test_second_signal_ends_the_pipeline_command_despite_signal_handlers_of_pyspark(number: str, ignored: bool) -> None:
    program = f"""
import signal
if {ignored}:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
from kohort.cli.terminal.exits import sigterm_interrupts
from kohort.spark.pipeline.running.process import StopRequest, exit_on_signal
with sigterm_interrupts(), exit_on_signal(130) as install:
    signal.signal(signal.SIGINT, lambda *_: print("pyspark's"))
    install()
    with StopRequest("ending"):
        signal.raise_signal(signal.{number})
        print("goes on", flush=True)
        signal.raise_signal(signal.{number})
        print("not reached")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, "goes on\n", "ending\n\n")


class SlowRunner(BatchRunner):
    began = threading.Event()
    may_end = threading.Event()

    def _run(self, raw: Any, batch: int) -> Entry:
        self.began.set()
        assert self.may_end.wait(60)
        return Entry(batch)


def test_pipeline_run_ends_after_the_micro_batch_in_flight_is_committed(tmp_path: Path) -> None:
    pipeline = parse_pipeline(ORDERS, tmp_path / "orders.yaml", {})
    runner = SlowRunner(pipeline, LedgerStore(tmp_path / "ledger"))
    spark = threading.Thread(target=runner, args=(None, 7))
    ending = threading.Thread(target=runner.end, args=(60,))
    spark.start()
    assert runner.began.wait(60)
    ending.start()
    eventually(lambda: runner._stopping, "it is requested to end")
    runner.may_end.set()
    with pytest.raises(RunStopping):
        runner(None, 8)  # type: ignore[arg-type]  # no rows: refused before they are looked at

    spark.join(60)
    assert [entry.batch for entry in runner.entries] == [7]
    assert runner.error is None
    assert ending.is_alive(), "Spark has not recorded the micro-batch as complete"
    runner.complete(SimpleNamespace(batchId=7))
    ending.join(60)
    assert not ending.is_alive()
