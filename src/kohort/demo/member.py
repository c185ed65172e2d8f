"""Member process of the demo's group: writes the offsets of received records to a file, then commits.

At SIGTERM the member leaves the group and ends. It also ends with its parent process. The demo kills one member by
SIGKILL.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kohort.aio.consuming.consumer import Consumer
from kohort.errors import ApiError, CommitFailed, ErrorCode, KohortError

if TYPE_CHECKING:
    import pyarrow as pa

COMMIT_EVERY_S: Final = 0.5
POLL_MS: Final = 200


class DemoMember:
    def __init__(self, consumer: Consumer, notes: Path) -> None:
        self._consumer = consumer
        self._notes = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._parent = os.getppid()
        self._committed_at = time.monotonic()
        self._uncommitted = False
        self.stopping = False

    def run(self) -> None:
        while not self.stopping and os.getppid() == self._parent:
            table = self._consumer.poll_arrow(POLL_MS, columns=("partition", "offset"))
            if table.num_rows:
                # Write before the commit: after a kill in between, records are redelivered, never missing.
                os.write(self._notes, notes_of(table))
                self._uncommitted = True
            if self._uncommitted and time.monotonic() - self._committed_at >= COMMIT_EVERY_S:
                self._commit()
        self._commit()

    def _commit(self) -> None:
        self._committed_at = time.monotonic()
        try:
            self._consumer.commit()
        except CommitFailed:
            pass  # this member is fenced: another member receives the records again, which the demo counts
        except KohortError as error:
            rebalancing = isinstance(error, ApiError) and error.code is ErrorCode.REBALANCE_IN_PROGRESS
            if not error.retriable and not rebalancing:
                raise
            return  # the next poll continues the rebalance, a later commit covers these records
        self._uncommitted = False


def notes_of(table: pa.Table) -> bytes:
    lines = []
    for batch in table.to_batches():
        if not batch.num_rows:
            continue
        partitions, offsets = batch.column("partition").to_pylist(), batch.column("offset").to_pylist()
        first = 0
        for i in range(1, len(offsets) + 1):
            if i == len(offsets) or partitions[i] != partitions[first] or offsets[i] != offsets[i - 1] + 1:
                lines.append({"partition": partitions[first], "first": offsets[first], "last": offsets[i - 1]})
                first = i
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def main() -> int:
    parser = argparse.ArgumentParser()
    for option in ("--bootstrap", "--topic", "--group", "--name"):
        parser.add_argument(option, required=True)
    parser.add_argument("--notes", required=True, type=Path)
    parser.add_argument("--session-timeout-ms", required=True, type=int)
    args = parser.parse_args()
    consumer = Consumer(
        bootstrap_servers=args.bootstrap,
        group_id=args.group,
        client_id=args.name,
        session_timeout_ms=args.session_timeout_ms,
        heartbeat_interval_ms=args.session_timeout_ms // 6,
        partition_assignment_strategy="cooperative-sticky",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    member = DemoMember(consumer, args.notes)

    def stop(*_: object) -> None:
        member.stopping = True

    signal.signal(signal.SIGTERM, stop)
    with consumer:
        consumer.subscribe([args.topic])
        member.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
