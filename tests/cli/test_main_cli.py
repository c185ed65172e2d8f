from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kohort

COMMAND = [sys.executable, "-m", "kohort"]
SCRIPT = Path(sys.executable).parent / "kohort"


def kohort_process(*args, bootstrap="127.0.0.1:1", stdin="", timeout=110):
    env = {**os.environ, "KOHORT_BOOTSTRAP": bootstrap}
    return subprocess.run(
        [*COMMAND, *args], capture_output=True, text=True, input=stdin, env=env, timeout=timeout, check=False
    )


def test_help_shows_commands_without_heavy_imports():
    code = (
        "import sys; from kohort.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'rich', 'asyncio', 'numpy', 'numba', 'pyarrow', 'pyspark', 'kohort.aio', 'kohort.wire'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=110, check=False)

    assert "HEAVY []" in done.stdout
    for word in ("serve", "topics", "produce", "consume", "groups", "group", "Examples:", "KOHORT_BOOTSTRAP"):
        assert word in done.stdout


def test_usage_errors_exit_with_2():
    unknown = kohort_process("frobnicate")

    assert unknown.returncode == 2
    assert "No such command 'frobnicate'" in unknown.stderr


def test_unreachable_cluster_is_reported_in_one_line_with_exit_code_4():
    failed = kohort_process("topics", "list")

    assert failed.returncode == 4
    assert failed.stdout == ""
    assert failed.stderr.startswith("kohort topics: ")
    assert "127.0.0.1:1" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1
    assert "Traceback" in kohort_process("--debug", "topics", "list").stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_command_prints_script_for_each_shell(run, shell):
    script = run("completion", shell).stdout

    assert "_KOHORT_COMPLETE" in script
    assert "%" not in script.split("_KOHORT_COMPLETE")[0]


def test_help_of_commands_has_examples(run):
    for name in ("topics create", "topics list", "topics describe", "topics delete", "produce", "consume", "groups"):
        assert "Examples:" in run(*name.split(), "--help").stdout
    for name in ("describe", "why", "reset-offsets", "delete"):
        assert "Examples:" in run("group", name, "--help").stdout


def test_interrupted_consume_commits_printed_records_and_exits_with_130():
    with kohort.Broker() as broker:
        with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for i in range(3):
                producer.send("orders", b"%d" % i, partition=0)
        command = [*COMMAND, "consume", "orders", "--group", "g", "--from-beginning", "--bootstrap", broker.bootstrap]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert [process.stdout.readline() for _ in range(3)] == ["0\n", "1\n", "2\n"]

        process.send_signal(signal.SIGINT)

        _, messages = process.communicate(timeout=60)
        assert process.returncode == 130
        assert messages.splitlines()[0] == "3 records"
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            committed = admin.list_group_offsets("g")
            assert committed[kohort.TopicPartition("orders", 0)].offset == 3


def test_closed_pipe_ends_consume_without_error():
    with kohort.Broker() as broker:
        with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for _ in range(2000):
                producer.send("orders", bytes(1000), partition=0)
        command = (
            f"{sys.executable} -m kohort consume orders --from-beginning --bootstrap {broker.bootstrap} | head -c 10"
        )
        done = subprocess.run(command, shell=True, capture_output=True, timeout=110, check=False)

    assert len(done.stdout) == 10
    assert b"Traceback" not in done.stderr
    assert b"BrokenPipe" not in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_offers_commands_and_options(shell, broker):
    def completed(*words):
        variables = {"_KOHORT_COMPLETE": f"{shell}_complete", "KOHORT_BOOTSTRAP": broker.bootstrap}
        variables |= {
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": words[-1] if shell == "fish" else str(len(words) - 1),
        }
        env = {**os.environ, **variables}
        return subprocess.run([SCRIPT], env=env, capture_output=True, text=True, check=True).stdout

    assert "what-if" in completed("kohort", "group", "wh")
    assert "--rolling-restart" in completed("kohort", "group", "what-if", "--rol")
    assert "reset-offsets" in completed("kohort", "group", "res")


def test_bash_completes_with_printed_script(run, tmp_path):
    script = tmp_path / "completion"
    script.write_text(run("completion", "bash").stdout)
    typed = "COMP_WORDS=(kohort group des); COMP_CWORD=2"
    command = f'. "{script}"; {typed}; _kohort_completion kohort; echo "${{COMPREPLY[@]}}"'
    env = {**os.environ, "PATH": f"{SCRIPT.parent}:{os.environ['PATH']}"}

    done = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["describe"]
