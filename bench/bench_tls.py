"""Cost of TLS: the same records written and read, in plaintext and over TLS, by kohort and confluent-kafka.

    python bench/bench_tls.py [--megabytes 200] [--size 1000] [--rounds 5] [--only tls] [--json]
    python bench/bench_tls.py --plain HOST:PORT --tls HOST:PORT --ca CA.pem      another broker, an Apache Kafka say

The kohort broker is a separate process, in memory, with both listeners. ``cpu`` is the processor time of the client and
of a kohort broker, which is comparable on busy machines. The clients take turns; each round gives a ratio, and the
result is the median ratio. All read the topic that confluent-kafka wrote. ``tuned`` is confluent-kafka without its
pause of a second after a full queue.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
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
class TestedBroker:
    """A broker: its addresses, its CA certificate, and the process of a kohort broker."""

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
    round: int
    client: str
    way: str
    verb: str
    mb_per_s: float
    mb_per_cpu_s: float


@contextlib.contextmanager
def our_broker() -> Iterator[TestedBroker]:
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
                yield TestedBroker({"plain": plain, "tls": tls}, str(authority), process.pid)
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


def confluent_consume(options: dict[str, str], topic: str, count: int, **more: int) -> None:
    from confluent_kafka import Consumer, TopicPartition

    tuned = {name.replace("_", "."): value for name, value in more.items()}
    consumer = Consumer({**options, "group.id": "bench", "enable.auto.commit": False, **tuned})
    consumer.assign([TopicPartition(topic, 0, 0)])
    while count > 0:
        count -= len(consumer.consume(10_000, 1.0))
    consumer.close()


OURS, PEER, TUNED = "kohort", "confluent-kafka", "tuned"
WITHOUT_PAUSE = {"fetch_queue_backoff_ms": 0, "queued_min_messages": 1_000_000, "queued_max_messages_kbytes": 1 << 20}
PRODUCERS = {OURS: kohort_produce, PEER: confluent_produce}
CONSUMERS: dict[str, Callable[..., None]] = {
    OURS: kohort_consume,
    PEER: confluent_consume,
    TUNED: partial(confluent_consume, **WITHOUT_PAUSE),
}
Work = Callable[[], None]


def timed(broker: TestedBroker, megabytes: float, work: Work) -> tuple[float, float]:
    cpu_s, wall_s = broker.cpu_s(), time.perf_counter()
    work()
    return megabytes / (time.perf_counter() - wall_s), megabytes / (broker.cpu_s() - cpu_s)


def measure(broker: TestedBroker, ways: Iterable[str], megabytes: int, size: int, rounds: int) -> Iterator[Row]:
    """Yield the results of all rounds; the first client and the topic change in each round."""
    import kohort

    count, value = megabytes * 1_000_000 // size, bytes(range(256)) * (size // 256 + 1)
    value = value[:size]
    with kohort.Admin(broker.options("plain")) as admin:
        for number in range(rounds + 1):  # the first round is warm-up: it loads the kernels
            records = count if number else 1000
            for way in ways:
                options = broker.options(way)
                topics = {client: f"tls-{uuid.uuid4().hex[:8]}" for client in PRODUCERS}
                admin.create_topics(dict.fromkeys(topics.values(), 1))
                verbs: dict[str, dict[str, Work]] = {
                    "produce": {c: partial(p, options, topics[c], value, records) for c, p in PRODUCERS.items()},
                    "consume": {c: partial(p, options, topics[PEER], records) for c, p in CONSUMERS.items()},
                }
                for verb, clients in verbs.items():
                    for client, work in list(clients.items())[:: -1 if number % 2 else 1]:
                        row = Row(number, client, way, verb, *timed(broker, megabytes, work))
                        if number:
                            yield row
                admin.delete_topics(list(topics.values()))


def medians_text(rows: list[Row]) -> Iterator[str]:
    """Yield the medians of each client by listener and verb, and the median of kohort's ratios."""
    for way, verb in dict.fromkeys((row.way, row.verb) for row in rows):
        those = [row for row in rows if (row.way, row.verb) == (way, verb)]
        ours = {row.round: row for row in those if row.client == OURS}
        for client in dict.fromkeys(row.client for row in those):
            theirs = [row for row in those if row.client == client]
            wall = statistics.median(row.mb_per_s for row in theirs)
            cpu = statistics.median(row.mb_per_cpu_s for row in theirs)
            line = f"{way:6} {verb:8} {client:16} {wall:7.1f} MB/s {cpu:7.1f} MB per cpu s"
            if client != OURS:
                by_wall = sorted(ours[row.round].mb_per_s / row.mb_per_s for row in theirs)
                by_cpu = statistics.median(ours[row.round].mb_per_cpu_s / row.mb_per_cpu_s for row in theirs)
                middle = statistics.median(by_wall)
                line += f"   {OURS} is {middle:.2f} of it ({by_wall[0]:.2f} to {by_wall[-1]:.2f}), {by_cpu:.2f} by cpu"
            yield line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--size", type=int, default=1000, help="size of a record in bytes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["plain", "tls"], help="only this listener")
    parser.add_argument("--plain", help="plaintext listener of another broker")
    parser.add_argument("--tls", help="TLS listener of the same broker")
    parser.add_argument("--ca", help="PEM file of its CA certificate")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if args.tls:
            broker = TestedBroker({"plain": args.plain, "tls": args.tls}, args.ca, None)
        else:
            broker = stack.enter_context(our_broker())
        ways = {way: at for way, at in broker.addresses.items() if args.only in (None, way)}
        rows = list(measure(broker, ways, args.megabytes, args.size, args.rounds))
    if args.json:
        print(json.dumps({"settings": vars(args), "results": [asdict(row) for row in rows]}, indent=2))
        return
    print("\n".join(medians_text(rows)))


if __name__ == "__main__":
    main()
