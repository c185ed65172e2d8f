"""Handlers in threads: the session and the claims that they see, and the threads themselves.

Handlers' threads take from their claims' inboxes under the machine's lock, and decode outside of it.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from kohort.aio.consuming.record_reader import layout_of
from kohort.aio.group.session_state import Session, SessionClaim, SessionState
from kohort.client.partition_claims import ClaimState
from kohort.client.reading.fetched import Fetched
from kohort.model import Record

if TYPE_CHECKING:
    import pyarrow

LOOK_UP_S: Final = 1.0
log = logging.getLogger(__name__)


class GroupSession(Session):
    """One membership of one generation, from ``setup`` to ``cleanup``. Its methods may be called by any thread.

    ``member_id`` and ``generation_id`` are the group's names for it, ``partitions`` what it claims, and ``claims``
    these partitions with their records.
    """

    def __init__(self, state: SessionState) -> None:
        super().__init__(state)
        self.claims = tuple(Claim(state, claim) for claim in state.claims.by_partition.values())

    def commit(self, *, timeout_ms: int | None = None) -> None:
        """Commit what is marked, and wait until that is written: for ``timeout_ms`` milliseconds, by default
        ``default.api.timeout.ms``.

        Raises CommitFailed if the group has gone on without this member, ApiTimeout when the time is over, ApiError for
        what the coordinator refuses.
        """
        self._state.waits.run_anywhere(self._state.commit(timeout_ms))


class Claim(SessionClaim):
    """One partition during one session. Iterating gives its records until the session ends.

    ``topic`` and ``partition`` name it; ``initial_offset`` is where the session began to read it.
    """

    def __init__(self, session: SessionState, state: ClaimState) -> None:
        super().__init__(session, state)
        self._changed = threading.Condition(session.waits.guard)  # type: ignore[arg-type]  # the lock of these waits
        session.wake_by(state, self._changed.notify_all)

    def __iter__(self) -> Iterator[Record]:
        """Yield records one by one, until the session ends. Raises CorruptRecord where the log is damaged."""
        for records in self.batches():
            for record in records:
                if self._session.ending:
                    return
                yield record

    def batches(self) -> Iterator[list[Record]]:
        """Yield records as they were fetched, in lists, until the session ends. Raises as iterating does."""
        while (fetched := self._take()) is not None:
            records = fetched.decode_records(check_crcs=self._session.check_crcs)
            if records:
                self._session.count(fetched, len(records))
                yield records
            self._session.check_damage(self._state, fetched)

    def iter_arrow(
        self,
        *,
        schema: pyarrow.Schema | None = None,
        columns: Iterable[str] | None = None,
        json: pyarrow.Schema | None = None,
        json_errors: bool = False,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Yield Arrow batches as they were fetched, until the session ends; columns, types and options of
        ``Consumer.poll_arrow``. Mark them with ``mark_offset``.

        Raises CorruptRecord where the log is damaged, UndecodableValue for a value that is not as ``json`` says,
        UsageError for an unknown column or type.
        """
        layout = layout_of(schema, columns, json, json_errors=json_errors)
        while (fetched := self._take()) is not None:
            batches = fetched.decode_arrow(check_crcs=self._session.check_crcs, layout=layout)
            self._session.count(fetched, sum(batch.num_rows for batch in batches))
            yield from batches
            self._session.check_damage(self._state, fetched)

    def _take(self) -> Fetched | None:
        with self._changed:
            while not (self._state.inbox or self._session.ending):
                self._changed.wait(LOOK_UP_S)
            if self._session.ending:
                return None
            fetched = self._state.inbox.popleft()
        self._session.waits.look_again()
        return fetched


class HandlerThreads:
    """The threads of one session, one for each claim."""

    def __init__(self, state: SessionState) -> None:
        self.state = state
        self.session = GroupSession(state)
        self._threads: list[threading.Thread] = []

    def start(self, handler: Handler) -> None:
        for claim, state in zip(self.session.claims, self.state.claims.by_partition.values(), strict=True):
            name = f"kohort-claim-{claim.topic}-{claim.partition}"
            thread = threading.Thread(target=self._handle, args=(handler, claim, state), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _handle(self, handler: Handler, claim: Claim, state: ClaimState) -> None:
        try:
            handler.consume_claim(self.session, claim)
        except BaseException as error:  # noqa: BLE001  # the thread that runs the group raises it
            self.state.fail(state, error)
        finally:
            self.state.end()

    def have_me(self) -> bool:
        return threading.current_thread() in self._threads

    def join(self, patience_ms: int) -> None:
        """Wait until every handler has returned, and say who makes the group wait for too long."""
        now_ms = self.state.waits.now_ms
        deadline_ms = now_ms() + patience_ms
        warned = False
        for thread in self._threads:
            while thread.is_alive():
                thread.join(LOOK_UP_S)
                if thread.is_alive() and not warned and now_ms() > deadline_ms:
                    warned = True
                    log.warning("the session is over for %d ms, but %s has not returned", patience_ms, thread.name)


class Handler(Protocol):
    """What ``ConsumerGroup.run`` takes; ``GroupHandler`` needs no ``setup`` and ``cleanup``."""

    def setup(self, session: GroupSession) -> None:
        """Prepare for a session, before its claims are handled."""

    def consume_claim(self, session: GroupSession, claim: Claim) -> None:
        """Handle one partition; return when the claim's iteration ends."""

    def cleanup(self, session: GroupSession) -> None:
        """Finish a session, after every claim was handled and before the last commit."""


class GroupHandler(Handler, ABC):
    """A handler of which only ``consume_claim`` has to be written.

    ``setup`` and ``cleanup`` run in the thread of ``run``.
    """

    @abstractmethod
    def consume_claim(self, session: GroupSession, claim: Claim) -> None:
        """Handle one partition, in a thread of its own; return when the claim's iteration ends."""
