"""Histories written by hand: one line per call, on a clock that ticks with every call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kohort_lab.history.checker import CheckedHistory, check_history

TICK_US = 1000


class WrittenHistory:
    """Lines of a history; topic ``t`` and group ``g`` unless given."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.now_us = 0

    def client(self, name: str, **about: Any) -> HandWrittenClient:
        self.lines.append({"op": "client", "client": name, **about})
        return HandWrittenClient(self, name)

    def add(self, op: str, client: str, **fields: Any) -> int:
        """Add a line; return its number."""
        self.now_us += TICK_US
        times = {"at": fields.pop("at", self.now_us), "done": fields.pop("done", self.now_us + TICK_US // 2)}
        if times["done"] is None or fields.get("result") == "begun":
            del times["done"]
        self.lines.append({"op": op, "client": client, **fields, **times})
        return len(self.lines)

    def written(self, folder: Path, name: str = "history.jsonl") -> Path:
        path = folder / name
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return path

    def checked(self, folder: Path) -> CheckedHistory:
        return check_history([self.written(folder)])


class HandWrittenClient:
    """One client of a history by hand."""

    def __init__(self, history: WrittenHistory, name: str) -> None:
        self._history = history
        self.name = name

    def add(self, op: str, **fields: Any) -> int:
        return self._history.add(op, self.name, **fields)

    def sends(self, value: str, offset: int | None, result: str = "ok", **more: Any) -> int:
        fields = {"topic": "t", "partition": 0, "value": value, "result": result, **more}
        return self.add("send", **fields, **({} if offset is None else {"offset": offset}))

    def reads(self, *records: tuple[int, str], **more: Any) -> int:
        return self.add("read", **{"topic": "t", "partition": 0, "records": [list(r) for r in records], **more})

    def has(self, generation: int, position: int | None = None, partition: int = 0, **more: Any) -> int:
        entry = ["t", partition] if position is None else ["t", partition, position]
        return self.add("assigned", group="g", generation=generation, partitions=[entry], **more)

    def gives_up(self, kind: str = "revoked", partition: int = 0, **more: Any) -> int:
        return self.add(kind, group="g", partitions=[["t", partition]], **more)

    def commits(self, offset: int, generation: int = 1, result: str = "ok", **more: Any) -> int:
        partition = more.pop("partition", 0)
        fields = {"group": "g", "generation": generation, "offsets": [["t", partition, offset]], "result": result}
        return self.add("commit", **fields, **more)

    def ends(self, transaction: str, outcome: str = "commit", result: str = "ok", **more: Any) -> int:
        return self.add("end", txn=transaction, outcome=outcome, result=result, **more)
