"""Clients of a soak: python lab/tools/soak/clients.py groups|churn BOOTSTRAP FOLDER [LEAK]. They work until SIGTERM.

``groups``: ten groups of both protocols with one recorded consumer each, which closes after some seconds and returns
under another name. ``churn``: records for compacted topics and for topics with a short retention.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from pathlib import Path

TOOLS = Path(__file__).parents[1]
sys.path[:0] = [str(TOOLS / "history")]

import recording  # noqa: E402 - after sys.path is set
import with_kohort  # noqa: E402 - after sys.path is set

from kohort import Consumer, KohortError, OffsetAndMetadata, Producer, TopicPartition  # noqa: E402 - after sys.path is set

GROUPS = 10
STAYS_S = (5.0, 30.0)
IS_AWAY_S = (0.5, 5.0)
CHURN_EVERY_S = 0.01
KEYS = 100
CHURNED_BYTES = 500
LEAKED_BYTES = 2 << 20
LEAK_EVERY_S = 0.5


def come_and_go(bootstrap: str, folder: Path, number: int, over: threading.Event) -> None:
    """Run successive members of one group."""
    rng, life = random.Random(number), 0
    protocol = ("classic", "consumer")[number % 2]
    while not over.is_set():
        life += 1
        of = recording.Task("consume", bootstrap, f"group{number}#{life}", folder, protocol)
        group = f"soak-{number}"
        consumer, listener, written = with_kohort.member(of, group, protocol)
        written.write("group", group=group, protocol=protocol)
        try:
            stay(consumer, written, group, rng.uniform(*STAYS_S), over)
        finally:
            listener.closing = True
            consumer.close()
            written.write("gone", at=recording.now_us())
        over.wait(rng.uniform(*IS_AWAY_S))


def stay(consumer: Consumer, written, group: str, seconds: float, over: threading.Event) -> None:  # type: ignore[no-untyped-def]
    """Read and commit for some seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not over.is_set():
        found = with_kohort.read(consumer, written)
        if not found:
            continue
        offsets = {where: records[-1][0] + 1 for where, records in found.items()}
        at, generation = recording.now_us(), consumer.group_metadata().generation_id
        try:
            consumer.commit({TopicPartition(*where): OffsetAndMetadata(offset) for where, offset in offsets.items()})
            written.committed(at, group, offsets, "ok", generation=generation)
        except KohortError:
            written.committed(at, group, offsets, "unknown", generation=generation)
        over.wait(0.2)  # one batch per interval


def churn(bootstrap: str, over: threading.Event) -> None:
    """Overwrite the same keys continuously, and write records that soon expire."""
    rng = random.Random(0)
    with Producer(bootstrap_servers=bootstrap, linger_ms=50) as producer:
        while not over.wait(CHURN_EVERY_S):
            producer.send("compacted", rng.randbytes(CHURNED_BYTES), key=f"key {rng.randrange(KEYS)}")
            producer.send("short", rng.randbytes(CHURNED_BYTES))


def leak(folder: Path, over: threading.Event) -> None:
    """Leak memory and files, as a test of the verdict."""
    kept = []
    while not over.wait(LEAK_EVERY_S):
        kept.append((bytearray(b"x" * LEAKED_BYTES), (folder / "churn.log").open()))


def main() -> None:
    verb, bootstrap, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    over = recording.until_stopped()
    threads = [threading.Thread(target=leak, args=(folder, over))] if "LEAK" in sys.argv[4:] else []
    if verb == "groups":
        threads += [threading.Thread(target=come_and_go, args=(bootstrap, folder, n, over)) for n in range(GROUPS)]
    else:
        threads += [threading.Thread(target=churn, args=(bootstrap, over))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
