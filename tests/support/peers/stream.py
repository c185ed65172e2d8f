"""A background producer for tests."""

from __future__ import annotations

import threading

import kohort


class Stream:
    """Sends numbered records to all partitions of a topic in turn, until stopped."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.sent, self.partitions = 0, partitions
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bootstrap, topic))
        self._thread.start()

    def _run(self, bootstrap: str, topic: str) -> None:
        with kohort.Producer(bootstrap_servers=bootstrap) as producer:
            while not self._ended.wait(0.02):
                producer.send(topic, b"%d" % self.sent, partition=self.sent % self.partitions)
                self.sent += 1

    def stop(self) -> None:
        """Stop sending; return when all records are on the log."""
        self._ended.set()
        self._thread.join()

    @property
    def sent_positions(self) -> set[tuple[int, int]]:
        """Partition and offset of every sent record."""
        return {(n % self.partitions, n // self.partitions) for n in range(self.sent)}
