"""Writer of histories, for clients of any library. Format: docs/lab/history-format.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import IO, Any, Final

Record = tuple[int, str]
"""Offset and value."""
Where = tuple[str, int]
"""Topic and partition."""

_SEPARATORS: Final = (",", ":")


class ClientHistory:
    """Writer of one client's history, from start to end.

    Each call writes one line; threads may share the writer with a ``lock``.
    ``now_us`` returns microseconds of a monotonic clock: the end time of each operation, and the clock of ``at``.
    ``about``: fields of the ``client`` operation in docs/lab/history-format.md.
    """

    def __init__(
        self,
        file: IO[str],
        name: str,
        now_us: Callable[[], int],
        lock: AbstractContextManager[Any] | None = None,
        **about: Any,
    ) -> None:
        self._file = file
        self._name = name
        self._lock = lock if lock is not None else nullcontext()
        self.now_us = now_us
        self.write("client", **about)

    def write(self, op: str, **fields: Any) -> None:
        """Write one operation without its None fields."""
        present = {name: value for name, value in fields.items() if value is not None}
        line = json.dumps({"op": op, "client": self._name, **present}, separators=_SEPARATORS)
        with self._lock:
            self._file.write(line + "\n")

    def sent(self, at: int, where: Where, value: str, result: str, **more: Any) -> None:
        """Write a send and its result; ``more``: offset, txn, of. Call it with ``begun`` before the send."""
        done = None if result == "begun" else self.now_us()
        topic, partition = where
        self.write("send", topic=topic, partition=partition, value=value, result=result, at=at, done=done, **more)

    def read(self, at: int, where: Where, records: Iterable[Record], position: int | None = None) -> None:
        """Write the records of one partition that a reader received, and its position after them."""
        topic, partition = where
        listed = [list(record) for record in records]
        self.write(
            "read", topic=topic, partition=partition, records=listed, position=position, at=at, done=self.now_us()
        )

    def ownership(self, kind: str, at: int, group: str, partitions: Iterable[Where], **more: Any) -> None:
        """Write that partitions were ``assigned`` (with ``generation``), ``revoked`` or ``lost``."""
        listed = [list(partition) for partition in partitions]
        self.write(kind, group=group, partitions=listed, at=at, done=self.now_us(), **more)

    def committed(self, at: int, group: str, offsets: Mapping[Where, int], result: str, **more: Any) -> None:
        """Write a commit and its result; ``more``: generation, txn, id."""
        listed = [[topic, partition, offset] for (topic, partition), offset in offsets.items()]
        done = None if result == "begun" else self.now_us()
        self.write("commit", group=group, offsets=listed, result=result, at=at, done=done, **more)

    def ended(self, at: int, transaction: str, outcome: str, result: str) -> None:
        """Write the result of a transaction's ``commit`` or ``abort``."""
        done = None if result == "begun" else self.now_us()
        self.write("end", txn=transaction, outcome=outcome, result=result, at=at, done=done)

    def flush(self) -> None:
        """Flush buffered lines to the operating system, so that they survive a kill."""
        with self._lock:
            self._file.flush()
