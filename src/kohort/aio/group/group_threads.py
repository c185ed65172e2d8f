"""The session of a consumer group in threads: its claims, the threads that handle them, and what handlers are.

Handlers' threads take from their claims' inboxes under the machine's lock, and decode outside of it.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from kohort.aio.consuming.record_reader import layout_of
from kohort.aio.consuming.waits import ConsumerWaits
from kohort.aio.group.group_session import Session
from kohort.client.partition_claims import ClaimState
from kohort.client.reading.fetched import Fetched
from kohort.client.requests.close_timeout import Parting
from kohort.client.user_input import checked_ms
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiTimeout
from kohort.model import Record, TopicPartition

if TYPE_CHECKING:
    import pyarrow

LOOK_UP_S: Final = 1.0
log = logging.getLogger(__name__)


class GroupSession(Session):
    """The session of a group in threads. Its methods may be called by any thread."""

    def __init__(self, waits: ConsumerWaits, config: ConsumerConfig, max_processing_time_ms: int) -> None:
        auto_ms = config.auto_commit_interval_ms if config.enable_auto_commit else None
        super().__init__(waits.machine, max_processing_time_ms, auto_ms, threading.Lock)
        self._waits = waits
        self._commit_ms = config.default_api_timeout_ms
        check_crcs = config.check_crcs
        self.claims = tuple(Claim(self, waits, state, check_crcs) for state in self.claimed.by_partition.values())
        self._threads: list[threading.Thread] = []

    def commit(self, *, timeout_ms: int | None = None) -> None:
        """Commit what is marked, and wait until that is written. Raises CommitFailed if the group has gone on."""
        timeout = self._commit_ms if timeout_ms is None else checked_ms("timeout_ms", timeout_ms)
        with self._waits.lock:
            offsets, promise = self.begin_commit(self._waits.now_ms() + timeout)
        self._waits.wait_for(promise, timeout, "the commit was not answered in time", check=False)
        self.claimed.committed(offsets)

    def commit_last(self) -> None:
        """As ``commit``, but without waiting for a broker that cannot be reached: the session is the last one."""
        parting = Parting(self._waits.machine.engine, self._waits.now_ms(), most_ms=self._commit_ms)
        with self._waits.lock:
            offsets, promise = self.begin_commit(parting.deadline_ms)
        self._waits.wait_last(promise, parting)
        if not promise.done:
            raise ApiTimeout("no broker answered in time")
        promise.result()
        self.claimed.committed(offsets)

    # For the group

    def start(self, handler: Handler) -> None:
        for claim in self.claims:
            name = f"kohort-claim-{claim.topic}-{claim.partition}"
            thread = threading.Thread(target=self._handle, args=(handler, claim), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _handle(self, handler: Handler, claim: Claim) -> None:
        try:
            handler.consume_claim(self, claim)
        except BaseException as error:  # noqa: BLE001  # the thread that runs the group raises it
            self.fail(claim.state, error)
        finally:
            self.end()

    def feed(self) -> bool | None:
        """Hand on what came; True when the session is over."""
        if self._ending:
            return True
        with self._waits.lock:
            now_ms = self._waits.now_ms()
            fed, freed = self.claimed.feed(now_ms)
            self.commit_by_clock(now_ms)
            for claim in self.claims:
                if claim.state in fed:
                    claim.changed.notify_all()
        if freed:
            self._waits.driver.kick_soon()
        return None

    def has_work(self) -> bool:
        return self._ending or self.claimed.has_work()

    def end(self) -> None:
        """The claims' iterations stop."""
        with self._waits.lock:
            self._ending = True
            for claim in self.claims:
                claim.changed.notify_all()
        self._waits.nudge()

    def is_mine(self, thread: threading.Thread) -> bool:
        return thread in self._threads

    def join(self, patience_ms: int) -> None:
        """Wait until every handler has returned, and say who makes the group wait for too long."""
        deadline_ms = self._waits.now_ms() + patience_ms
        warned = False
        for thread in self._threads:
            while thread.is_alive():
                thread.join(LOOK_UP_S)
                if thread.is_alive() and not warned and self._waits.now_ms() > deadline_ms:
                    warned = True
                    log.warning("the session is over for %d ms, but %s has not returned", patience_ms, thread.name)


class Claim:
    """One partition during one session. Iterating gives its records until the session ends."""

    def __init__(self, session: GroupSession, waits: ConsumerWaits, state: ClaimState, check_crcs: bool) -> None:
        self.topic = state.partition.topic
        self.partition = state.partition.partition
        self.initial_offset = state.start.offset
        self.state = state
        """What the session keeps of it."""
        self.changed = threading.Condition(waits.lock)
        self._session = session
        self._waits = waits
        self._check_crcs = check_crcs

    @property
    def topic_partition(self) -> TopicPartition:
        return self.state.partition

    @property
    def high_watermark(self) -> int | None:
        """The offset behind the last record of the log, as the last fetch told it."""
        return self.state.state.high_watermark

    def __iter__(self) -> Iterator[Record]:
        """Records one by one, until the session ends. Raises CorruptRecord where the log is damaged."""
        for records in self.batches():
            for record in records:
                if self._session.ending:
                    return
                yield record

    def batches(self) -> Iterator[list[Record]]:
        """Records as they were fetched, in lists."""
        while (fetched := self._take()) is not None:
            records = fetched.decode_records(check_crcs=self._check_crcs)
            if records:
                yield records
            self._check(fetched)

    def iter_arrow(
        self,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Arrow batches as they were fetched; options as of ``Consumer.poll_arrow``. Mark with ``mark_offset``."""
        layout = layout_of(schema, columns, json)
        while (fetched := self._take()) is not None:
            yield from fetched.decode_arrow(check_crcs=self._check_crcs, layout=layout)
            self._check(fetched)

    def _check(self, fetched: Fetched) -> None:
        """Raises CorruptRecord for damage that is there when it is fetched once more, too."""
        if fetched.error is None:
            return
        with self._waits.lock:
            is_asked = self._session.claimed.ask_again(self.state, fetched)
        if not is_asked:
            raise fetched.error
        self._waits.driver.kick_soon()

    def _take(self) -> Fetched | None:
        with self.changed:
            while not (self.state.inbox or self._session.ending):
                self.changed.wait(LOOK_UP_S)
            if self._session.ending:
                return None
            fetched = self.state.inbox.popleft()
        self._waits.nudge()
        return fetched


class Handler(Protocol):
    """What ``run`` takes; ``GroupHandler`` needs no ``setup`` and ``cleanup``."""

    def setup(self, session: GroupSession) -> None: ...

    def consume_claim(self, session: GroupSession, claim: Claim) -> None: ...

    def cleanup(self, session: GroupSession) -> None: ...


class GroupHandler(ABC):
    """A handler of which only ``consume_claim`` has to be written."""

    def setup(self, session: GroupSession) -> None:  # noqa: B027  # there may be nothing to do
        """Before the claims of a session are handled, in the thread of ``run``."""

    @abstractmethod
    def consume_claim(self, session: GroupSession, claim: Claim) -> None:
        """Handle one partition, in a thread of its own; return when the claim's iteration ends."""

    def cleanup(self, session: GroupSession) -> None:  # noqa: B027  # there may be nothing to do
        """After every claim was handled, before the last commit, in the thread of ``run``."""
