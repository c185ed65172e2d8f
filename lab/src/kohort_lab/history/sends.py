"""Gathering of sent records, their results and transactions."""

from __future__ import annotations

from typing import Any, Final

from kohort_lab.history.facts import NEVER, HistoryClient, HistoryFacts, TransactionFacts
from kohort_lab.history.fields import PARTITIONS_END, WrongField, choice, ended, listed, offset, text, when, whole
from kohort_lab.history.logs import WITHIN
from kohort_lab.history.values import ACKNOWLEDGED, FAILED, UNKNOWN, UNSENT

RESULTS: Final = ("ok", "fail", "unknown", "begun")
MEANS: Final = {"ok": ACKNOWLEDGED, "fail": FAILED, "unknown": UNKNOWN, "begun": UNKNOWN}


class Sends:
    """Handler of ``send``, ``begin`` and ``end``."""

    def __init__(self, facts: HistoryFacts) -> None:
        self._facts = facts

    def send(self, line: int, operation: dict[str, Any], client: HistoryClient) -> None:
        """Record a sent record and its result."""
        result = choice(operation, "result", RESULTS)
        values, at = self._facts.values, when(operation)
        log = self._facts.logs.log(
            text(operation, "topic"), whole(operation.get("partition"), "partition", PARTITIONS_END)
        )
        index = values.index_of(text(operation, "value"))
        if values.result[index] == UNSENT:
            values.client[index] = client.number
            values.at[index] = at
            values.topic_partition[index] = log.number
            self._note_inputs(operation, index)
            if operation.get("txn") is not None:
                values.transaction[index] = self.transaction(line, text(operation, "txn"), client)
        elif values.result[index] != UNKNOWN or values.client[index] != client.number:
            raise WrongField(f"value {operation['value']!r} is sent twice: each record needs a unique value")
        values.line[index] = line
        values.result[index] = MEANS[result]
        values.done[index] = ended(operation, at, NEVER)
        if result == "ok" and operation.get("offset") is not None:
            self._acknowledge(line, index, log.number, offset(operation["offset"]))

    def _acknowledge(self, line: int, index: int, log_number: int, at: int) -> None:
        values, log = self._facts.values, self._facts.logs.all[log_number]
        place = values.acknowledged[index] = log.place(at)
        page = log.page(at)
        stored = page.value[at & WITHIN]
        if stored < 0:
            page.value[at & WITHIN] = index
        elif stored != index:
            first = page.line[at & WITHIN] or values.line[stored]
            one, other = values.spelled(stored), values.spelled(index)
            why = f"offset {at} of {log} is {one!r} to one client and {other!r} to another"
            self._facts.anomalies.add("two-values-at-one-offset", why, first, line)
        if values.place[index] < 0:
            values.place[index] = place
        elif values.place[index] != place:
            self._facts.second_places.setdefault((index, place), line)

    def _note_inputs(self, operation: dict[str, Any], index: int) -> None:
        """Record the input records of an effect."""
        if operation.get("of") is None:
            return
        for topic, partition, at in listed(operation, "of", (3,)):
            if not isinstance(topic, str):
                raise WrongField(f"an entry of 'of' must be [topic, partition, offset], not {[topic, partition, at]!r}")
            log = self._facts.logs.log(topic, whole(partition, "partition", PARTITIONS_END))
            self._facts.of_value.append(index)
            self._facts.of_place.append(log.place(offset(at)))

    def transaction(self, line: int, name: str, client: HistoryClient) -> int:
        """Return the number of a client's transaction; adds it if new. Raises WrongField."""
        number = self._facts.transaction_numbers.get(name)
        if number is None:
            number = self._facts.transaction_numbers[name] = len(self._facts.transactions)
            self._facts.transactions.append(TransactionFacts(name, client.number, line))
        elif self._facts.transactions[number].client != client.number:
            raise WrongField(f"transaction {name!r} belongs to another client: use unique transaction names")
        return number

    def begin(self, line: int, operation: dict[str, Any], client: HistoryClient) -> None:
        self.transaction(line, text(operation, "txn"), client)

    def end(self, line: int, operation: dict[str, Any], client: HistoryClient) -> None:
        """Record a commit or abort request and its result."""
        outcome = choice(operation, "outcome", ("commit", "abort"))
        result, at = choice(operation, "result", RESULTS), when(operation)
        found = self._facts.transactions[self.transaction(line, text(operation, "txn"), client)]
        done = ended(operation, at, NEVER)
        found.end_line = line
        if outcome == "commit":
            found.is_requested = True
            found.requested_at = min(found.requested_at, at)
            if result == "ok":
                found.committed, found.committed_done = True, done
            found.refused = result == "fail"
        elif result == "ok":
            found.refused = True
