"""What becomes of values that cannot be decoded: the query fails, or they are dropped, nulled, or sent to a topic.

A dead letter is the record as it was (key, value, headers) with headers ``kohort-error.*`` that say why and from where.
It is sent by the task that found it, before the task ends: at least once, for a task that Spark repeats sends it again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kohort.errors import KohortError
from kohort.spark.options.client import connecting
from kohort.spark.options.source import SourceOptions
from kohort.spark.sending.delivery_headers import add_headers

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


class BadRecord(KohortError):
    """A value that cannot be decoded, where the options say that this ends the query."""


@dataclass(frozen=True, slots=True)
class BadRecords:
    """The policy of ``badRecords``: fail, drop, null or dlq. ``settings``: those of the producer of dead letters."""

    policy: str
    topic: str
    settings: dict[str, Any]

    @classmethod
    def of(cls, options: SourceOptions) -> BadRecords:
        settings = {**connecting(options.client), "bootstrap.servers": options.bootstrap_servers}
        settings["client.id"] = "kohort-dead-letters"
        return cls(options.bad_records, options.dead_letter_topic, settings)

    @property
    def sends(self) -> bool:
        return self.policy == "dlq"

    def judge(
        self, batch: pa.RecordBatch, built: pa.RecordBatch, problems: Mapping[int, str], *, keep: bool
    ) -> pa.RecordBatch:
        """Return the rows to hand on. ``batch``: the records as they were; ``keep``: rows of dead letters stay, with
        their ``_error``. Raises BadRecord where the policy is to fail."""
        if not problems or self.policy == "null":
            return built
        row = min(problems)
        where = f"{batch.column('topic')[row]}-{batch.column('partition')[row]} offset {batch.column('offset')[row]}"
        if self.policy == "fail":
            raise BadRecord(
                f"{where}: {problems[row]}. To go on without such records, set badRecords to drop, null or dlq"
            )
        if self.sends:
            self._send(batch, problems)
            if keep:
                return built
        fate = f"sent to {self.topic}" if self.sends else "dropped"
        log.warning("%d undecodable values %s, the first at %s: %s", len(problems), fate, where, problems[row])
        import numpy as np
        import pyarrow as pa

        good = np.ones(batch.num_rows, bool)
        good[list(problems)] = False
        return built.filter(pa.array(good))

    def _send(self, batch: pa.RecordBatch, problems: Mapping[int, str]) -> None:
        import pyarrow as pa

        from kohort.spark.sending.dead_letters import LetterSender

        rows = sorted(problems)
        bad = batch.take(pa.array(rows))
        said = {
            "reason": [problems[row].encode() for row in rows],
            "stage": [b"decode"] * len(rows),
            "topic": [str(v).encode() for v in bad.column("topic").to_pylist()],
            "partition": [str(v).encode() for v in bad.column("partition").to_pylist()],
            "offset": [str(v).encode() for v in bad.column("offset").to_pylist()],
        }
        more = [(f"kohort-error.{name}", pa.array(values, pa.binary())) for name, values in said.items()]
        headers = add_headers(bad.column("headers"), len(rows), more)
        sender = LetterSender(self.settings)
        try:
            arrays = [bad.column("key"), bad.column("value"), headers]
            sender.send(self.topic, pa.RecordBatch.from_arrays(arrays, names=["key", "value", "headers"]))
            sender.finish()
        except KohortError:
            sender.fail()
            raise
