"""kcat on a broker of ours, and on theirs: what it sends and reads, its group, its questions.

Debian has it as the package ``kcat``; where it is not on PATH the stories are skipped, also where peers are required.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid

import pytest

from kohort import Admin, Consumer, Producer, TopicPartition
from support.recent import RECENT_MS

pytestmark = [
    pytest.mark.interop,
    pytest.mark.toolchain,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not on PATH (Debian: apt-get install kcat)"),
]
RUN_S = 120


@pytest.fixture
def admin(either):
    with Admin(bootstrap_servers=either) as client:
        yield client


@pytest.fixture
def topic(admin):
    name = f"kcat-{uuid.uuid4().hex[:10]}"
    admin.create_topics({name: 2})
    return name


def kcat(bootstrap, *words, stdin=""):
    """Run kcat; return its output lines."""
    command = ["kcat", "-b", bootstrap, *words]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}"
    return done.stdout.splitlines()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_records_of_kcat_and_kohort_are_exchanged(either, topic, codec):
    lines = ["key:value", "other:" + "x" * 3000, *(f"k{n}:value {n}" for n in range(100))]

    kcat(either, "-P", "-t", topic, "-p", "1", "-K:", "-H", "name=a header", "-z", codec, stdin="\n".join(lines))
    with Consumer(bootstrap_servers=either, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 1)])
        found = []
        while len(found) < len(lines):
            records = consumer.poll(60_000)
            assert records, found
            found += records
    assert [f"{r.key.decode()}:{r.value.decode()}" for r in found] == lines
    assert {tuple(r.headers) for r in found} == {(("name", b"a header"),)}

    with Producer(bootstrap_servers=either, compression_type=codec) as producer:
        for n in range(100):
            producer.send(topic, b"%d" % n, b"k%d" % n, partition=0, timestamp_ms=RECENT_MS + n)
    read = kcat(either, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%o %T %k %s\\n")
    assert read == [f"{n} {RECENT_MS + n} k{n} {n}" for n in range(100)]


def test_kcat_group_reads_commits_and_resumes(either, admin, topic):
    group = f"{topic}-group"
    settings = ["-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000"]

    def send(*values):
        with Producer(bootstrap_servers=either) as producer:
            for n, value in enumerate(values):
                producer.send(topic, value, partition=n % 2)

    send(b"a", b"b", b"c", b"d")
    first = kcat(either, "-G", group, *settings, "-c", "4", "-q", "-f", "%p %s\\n", topic)
    assert sorted(first) == ["0 a", "0 c", "1 b", "1 d"]
    assert {tp.partition: at.offset for tp, at in admin.list_group_offsets(group).items()} == {0: 2, 1: 2}
    assert admin.describe_groups([group])[group].state == "Empty"

    send(b"e", b"f")
    assert sorted(kcat(either, "-G", group, *settings, "-c", "2", "-q", "-f", "%p %s\\n", topic)) == ["0 e", "1 f"]


def test_kcat_lists_topics_and_finds_offsets_by_time(either, topic):
    with Producer(bootstrap_servers=either) as producer:
        for n in range(10):
            producer.send(topic, b"%d" % n, partition=0, timestamp_ms=RECENT_MS + 1000 * n)

    (metadata,) = kcat(either, "-L", "-J", "-t", topic)
    (described,) = json.loads(metadata)["topics"]
    assert (described["topic"], [p["partition"] for p in described["partitions"]]) == (topic, [0, 1])
    (every,) = kcat(either, "-L", "-J")
    assert described in json.loads(every)["topics"]
    assert kcat(either, "-Q", "-t", f"{topic}:0:{RECENT_MS + 4500}") == [f"{topic} [0] offset 5"]
    assert kcat(either, "-Q", "-t", f"{topic}:0:-1") == [f"{topic} [0] offset 10"]
