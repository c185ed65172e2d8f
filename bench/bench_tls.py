"""What TLS costs: the same records in and out, in plaintext and over TLS, by kohort's clients and confluent-kafka's.

    python bench/bench_tls.py [--megabytes 200] [--size 1000] [--json]
    python bench/bench_tls.py --plain HOST:PORT --tls HOST:PORT --ca CA.pem      another broker, an Apache Kafka say

Our broker is a process of its own, in memory, with a listener of each kind. ``cpu`` counts the processor time of the
client, and of the broker where it is ours: that compares on a machine that has other things to do. What counts is the
ratio of TLS to plaintext, and of one client or broker to another, within one run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from serving import cpu_of

SERVE = """
import sys, kohort
options = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL",
    "ssl.keystore.location": sys.argv[1],
}
with kohort.Broker(options) as broker:
    print(broker.bootstrap_of("PLAINTEXT"), broker.bootstrap_of("SSL"), flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True)
class Judged:
    """A broker: where it is, whom to believe there, and its process where it is ours."""

    addresses: dict[str, str]
    authority: str
    pid: int | None

    def options(self, way: str) -> dict[str, str]:
        security = {"security.protocol": "SSL", "ssl.ca.location": self.authority} if way == "tls" else {}
        return {"bootstrap.servers": self.addresses[way], **security}

    def cpu_s(self) -> float:
        return time.process_time() + (cpu_of(self.pid) if self.pid else 0.0)


@dataclass(frozen=True)
class Row:
    client: str
    way: str
    verb: str
    mb_per_s: float
    mb_per_cpu_s: float


@contextlib.contextmanager
def our_broker() -> Iterator[Judged]:
    import trustme

    with tempfile.TemporaryDirectory() as folder:
        authority, own = Path(folder, "ca.pem"), Path(folder, "broker.pem")
        ca = trustme.CA()
        ca.cert_pem.write_to_path(authority)
        ca.issue_cert("127.0.0.1", key_type=trustme.KeyType.RSA).private_key_and_cert_chain_pem.write_to_path(own)
        command = [sys.executable, "-c", SERVE, str(own)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            plain, tls = process.stdout.readline().split()
            try:
                yield Judged({"plain": plain, "tls": tls}, str(authority), process.pid)
            finally:
                process.stdin.close()


def kohort_produce(options: dict[str, str], topic: str, value: bytes, count: int) -> None:
    import kohort

    with kohort.Producer(options) as producer:
        for _ in range(count):
            producer.send(topic, value)
        producer.flush()


def kohort_consume(options: dict[str, str], topic: str, count: int) -> None:
    import kohort

    with kohort.Consumer({**options, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([kohort.TopicPartition(topic, 0)])
        while count > 0:
            count -= consumer.poll_arrow(1000).num_rows


def confluent_produce(options: dict[str, str], topic: str, value: bytes, count: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({**options, "linger.ms": 5, "enable.idempotence": True})
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def confluent_consume(options: dict[str, str], topic: str, count: int) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**options, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    while count > 0:
        count -= len(consumer.consume(10_000, 1.0))
    consumer.close()


CLIENTS = {"kohort": (kohort_produce, kohort_consume), "confluent-kafka": (confluent_produce, confluent_consume)}


def timed(judged: Judged, megabytes: float, work: Callable[[], None]) -> tuple[float, float]:
    cpu_s, wall_s = judged.cpu_s(), time.perf_counter()
    work()
    return megabytes / (time.perf_counter() - wall_s), megabytes / (judged.cpu_s() - cpu_s)


def measure(judged: Judged, megabytes: int, size: int) -> Iterator[Row]:
    import kohort

    count, value = megabytes * 1_000_000 // size, bytes(range(256)) * (size // 256 + 1)
    value = value[:size]
    with kohort.Admin(judged.options("plain")) as admin:
        for client, (produce, consume) in CLIENTS.items():
            for way in judged.addresses:
                topic, options = f"tls-{uuid.uuid4().hex[:8]}", judged.options(way)
                admin.create_topics({topic: 1})
                produce(options, topic, value, 1000)  # what is made once is made now, kernels too
                consume(options, topic, 1000)
                verbs = {
                    "produce": partial(produce, options, topic, value, count),
                    "consume": partial(consume, options, topic, count),
                }
                for verb, work in verbs.items():
                    yield Row(client, way, verb, *timed(judged, megabytes, work))
                admin.delete_topics([topic])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--size", type=int, default=1000, help="bytes of a record")
    parser.add_argument("--plain", help="another broker's plaintext listener")
    parser.add_argument("--tls", help="its listener with TLS")
    parser.add_argument("--ca", help="who signed its certificate: PEM")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if args.tls:
            judged = Judged({"plain": args.plain, "tls": args.tls}, args.ca, None)
        else:
            judged = stack.enter_context(our_broker())
        rows = list(measure(judged, args.megabytes, args.size))
    if args.json:
        print(json.dumps({"settings": vars(args), "results": [asdict(row) for row in rows]}, indent=2))
        return
    for row in rows:
        print(f"{row.client:16} {row.way:6} {row.verb:8} {row.mb_per_s:8.1f} MB/s {row.mb_per_cpu_s:8.1f} MB per cpu s")


if __name__ == "__main__":
    main()
