"""Effect of /metrics scrapes on other clients: latency of a small request, with and without scrapers.

    python bench/bench_scrapes.py [--groups 1000] [--partitions 100] [--scrapers 4] [--seconds 5] [--json]

One client in a separate process sends one request after the other; the broker has the offsets of many groups, and
scrapers in a third process request its metrics page without a pause. Milliseconds; only ratios are comparable on busy
machines.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any

from bench_broker import Client

from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_classic import HeartbeatRequest
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kohort.wire.messages.topics import CreatableTopic, CreateTopicsRequest


def serve() -> tuple[subprocess.Popen[str], dict[str, Any]]:
    command = [sys.executable, "-m", "kohort", "serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    more = ["--output", "json", "--quiet", "--set", "offsets.topic.num.partitions=4"]
    process = subprocess.Popen([*command, *more], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def populate(client: Client, groups: int, partitions: int) -> None:
    topic = CreatableTopic(name="t", num_partitions=partitions, replication_factor=1)
    client.send(client.request(CreateTopicsRequest(topics=[topic]), 5))
    client.skip_answer()
    client.send(client.request(FindCoordinatorRequest(key="g", key_type=0), 2))
    client.skip_answer()
    parts = [OffsetCommitRequestPartition(partition_index=p, committed_offset=0) for p in range(partitions)]
    for number in range(groups):
        topics = [OffsetCommitRequestTopic(name="t", partitions=parts)]
        client.send(client.request(OffsetCommitRequest(group_id=f"group-{number}", topics=topics), 7))
        client.skip_answer()


def times(client: Client, seconds: float) -> dict[str, float]:
    """Return the latencies of requests in ms."""
    request = client.request(HeartbeatRequest(group_id="group-1", generation_id=1, member_id="nobody"), 3)
    took: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        client.send(request)
        client.skip_answer()
        took.append((time.perf_counter() - began) * 1000)
    took.sort()
    at = {"median": 0.5, "p99": 0.99, "p999": 0.999}
    found = {name: round(took[int(len(took) * share)], 3) for name, share in at.items()}
    return {"requests": len(took), **found, "max": round(took[-1], 1)}


def scrape(url: str, scrapers: int, stop: Any, pages: Any) -> None:
    """Request metrics pages until ``stop`` is set."""

    def ask() -> None:
        while not stop.is_set():
            try:
                with urllib.request.urlopen(url, timeout=60) as answer:
                    size = len(answer.read())
            except (urllib.error.URLError, OSError):
                continue
            with pages.get_lock():
                pages[0] += 1
                pages[1] = size

    threads = [threading.Thread(target=ask) for _ in range(scrapers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--scrapers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    process, ready = serve()
    try:
        client = Client(ready["bootstrap"])
        populate(client, args.groups, args.partitions)
        alone = times(client, args.seconds)
        stop, pages = multiprocessing.Event(), multiprocessing.Array("q", 2)
        scraping = multiprocessing.Process(target=scrape, args=(ready["metrics"], args.scrapers, stop, pages))
        scraping.start()
        scraped = times(client, args.seconds)
        stop.set()
        scraping.join()
    finally:
        process.terminate()
        process.wait()
    found = {"alone": alone, "scraped": scraped, "pages": pages[0], "page_mb": round(pages[1] / 1e6, 1)}
    print(json.dumps(found) if args.json else "\n".join(f"{name:<10} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
