"""Writes down what clients have to say: warnings while something keeps them from working, and a line when it is over.

The loggers are ``kohort.consumer`` and ``kohort.producer``. Administration has none: its calls say what failed.
"""

from __future__ import annotations

import logging
from typing import Final

from kohort.client.requests.notes import Notes
from kohort.notes import one_line

CONSUMER_LOG: Final = logging.getLogger("kohort.consumer")
PRODUCER_LOG: Final = logging.getLogger("kohort.producer")


def log_notes(notes: Notes, log: logging.Logger) -> None:
    """Write down each note once. Nobody has to hold the machine's guard."""
    if not notes:
        return
    for note in notes.take():
        log.log(note.level, "%s", one_line(note.text))
