from __future__ import annotations

import signal
import subprocess
import sys

import pytest

import kohort
from kohort.cli.records.consume import RecordPrinter
from kohort.cli.terminal.exits import interrupts_wait, sigterm_interrupts


def interrupt():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("comes_in", ["write", "flush"])
def test_ctrl_c_during_write_interrupts_after_records_are_counted(comes_in):
    written = []

    def write(records):
        written.extend(record.value for record in records)
        if comes_in == "write":
            interrupt()

    with kohort.Broker() as broker:
        with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for i in range(3):
                producer.send("orders", b"%d" % i, partition=0)
        partition = kohort.TopicPartition("orders", 0)
        with kohort.Consumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False) as consumer:
            consumer.assign([partition])
            consumer.seek_to_beginning([partition])
            printing = RecordPrinter(consumer, most=None, idle=None, ends=None)
            with pytest.raises(KeyboardInterrupt):
                printing.run(write, interrupt if comes_in == "flush" else lambda: None, commits=False)

    assert printing.count == len(written) == 3


def test_second_ctrl_c_during_write_interrupts_at_once():
    reached = []

    def write():
        with interrupts_wait():
            interrupt()
            reached.append("after the first")
            interrupt()
            reached.append("after the second")

    with pytest.raises(KeyboardInterrupt):
        write()

    assert reached == ["after the first"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ignored_sigint_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_wait():
            interrupt()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_sigterm_during_write_is_delayed_like_ctrl_c():
    reached = []

    def write():
        with interrupts_wait():
            signal.raise_signal(signal.SIGTERM)
            reached.append("written")

    with sigterm_interrupts():
        with pytest.raises(KeyboardInterrupt):
            write()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)

    assert reached == ["written"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_sigterm_interrupts_process_that_ignores_ctrl_c():
    reached = []

    def write():
        with interrupts_wait():
            signal.raise_signal(signal.SIGTERM)
            reached.append("written")

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with sigterm_interrupts(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        with sigterm_interrupts(), pytest.raises(KeyboardInterrupt):
            write()
    finally:
        signal.signal(signal.SIGINT, before)
    assert reached == ["written"]


def test_consume_commits_and_leaves_group_at_sigterm():
    with kohort.Broker() as broker:
        with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for i in range(3):
                producer.send("orders", b"%d" % i, partition=0)
        command = [sys.executable, "-m", "kohort", "consume", "orders", "--bootstrap", broker.bootstrap]
        with subprocess.Popen([*command, "--group", "readers", "--from-beginning"], stdout=subprocess.PIPE) as reader:
            for _ in range(3):
                reader.stdout.readline()
            reader.terminate()
            assert reader.wait(60) == 130
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            assert admin.describe_groups(["readers"])["readers"].state == "Empty"
            assert [at.offset for at in admin.list_group_offsets("readers").values()] == [3]
