"""All entrances by importance; each is imported on first use."""

from __future__ import annotations

import importlib
from functools import cache

from fuzz.entrance import Entrance

PLACES = {
    "broker-frames": "broker_frames:BrokerFrames",
    "broker-logins": "broker_logins:BrokerLogins",
    "record-batches": "record_batches:RecordBatches",
    "data-folders": "stored_folders:StoredFolders",
    "internal-records": "internal_records:InternalRecords",
    "client-answers": "client_answers:ClientAnswers",
    "admin-answers": "admin_answers:AdminAnswers",
    "client-metrics": "texts:ClientMetrics",
    "journal-entries": "texts:Journals",
    "tokens": "texts:Tokens",
    "option-files": "texts:OptionFiles",
    "schemas": "values:Schemas",
    "pipeline-files": "values:PipelineFiles",
    "histories": "texts:Histories",
    "kernel-files": "texts:KernelFiles",
    "watch-stores": "watch_stores:WatchStores",
    "scrapes": "scrapes:Scrapes",
    "command-lines": "command_lines:CommandLines",
}


@cache
def entrance_of(name: str) -> Entrance:
    """Return the entrance of a name in ``PLACES``; always the same object."""
    module, _, made = PLACES[name].partition(":")
    found: type[Entrance] = getattr(importlib.import_module(f"fuzz.entrances.{module}"), made)
    return found()
