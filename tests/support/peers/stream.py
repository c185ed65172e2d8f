"""Records that keep coming while a story goes on."""

from __future__ import annotations

import threading

import kohort


class Stream:
    """Sends numbered records to all partitions of a topic, one after the other, until it is stopped."""

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
        """Send no more; returns when all that was sent is on the log."""
        self._ended.set()
        self._thread.join()

    @property
    def wanted(self) -> set[tuple[int, int]]:
        """Every partition and offset that was sent."""
        return {(n % self.partitions, n // self.partitions) for n in range(self.sent)}
