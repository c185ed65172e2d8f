"""What a consumer's machine has to say to the log: a place in the group that was lost, an auto-commit that failed."""

from __future__ import annotations

import logging

from kohort.client.consumer import ConsumerMachine

log = logging.getLogger("kohort.consumer")


def log_notes(machine: ConsumerMachine) -> None:
    """Write them down as warnings, each once. Nobody has to hold the machine's guard."""
    while machine.notes:
        log.warning("%s", machine.notes.popleft())
