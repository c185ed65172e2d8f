"""Every word for a cause, with what there is to say of it; and the same for error codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.errors import ErrorCode
from kohort.insight.catalogue.changes import CHANGE_CAUSES
from kohort.insight.catalogue.coordination import COORDINATION_CAUSES
from kohort.insight.catalogue.entry import CauseEntry, ErrorEntry
from kohort.insight.catalogue.errors import GROUP_ERRORS
from kohort.insight.catalogue.many import PATTERNS
from kohort.insight.catalogue.members import MEMBER_CAUSES
from kohort.nearest import did_you_mean

CAUSES: Final[Mapping[str, CauseEntry]] = {
    entry.code: entry for entry in (*MEMBER_CAUSES, *CHANGE_CAUSES, *COORDINATION_CAUSES, *PATTERNS)
}
"""By their codes, in the order in which people are shown them."""


def advice_for(cause: str) -> str | None:
    """Return what to do about a cause; None where nothing needs to be done."""
    entry = CAUSES.get(cause)
    return None if entry is None else entry.advice


def find_cause_entry(word: str) -> CauseEntry | None:
    """Return the cause that ``word`` names, however it is written; ``frozen`` alone is SESSION_TIMEOUT.frozen."""
    wanted = _plain(word)
    for code, entry in CAUSES.items():
        if wanted in (_plain(code), _plain(code.rpartition(".")[2])):
            return entry
    return None


def find_error(word: str) -> ErrorCode | None:
    """Return the error code of Kafka's that ``word`` names: ``22``, ``ILLEGAL_GENERATION``, or as Java writes it,
    ``IllegalGenerationException``."""
    text = word.strip()
    if text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and len(text) < 7:
        return next((code for code in ErrorCode if code == int(text)), None)
    wanted = _plain(text)
    names = {_plain(code.name): code for code in ErrorCode}
    return names.get(wanted) or names.get(wanted.removesuffix("exception"))


def explain_error(code: ErrorCode) -> ErrorEntry:
    """Return what an error code means for a member of a group; of most there is little to say."""
    entry = GROUP_ERRORS.get(code)
    if entry is not None:
        return entry
    if code.retriable:
        return ErrorEntry("It says nothing about the group: a request may be repeated as it is.", "clients try again")
    return ErrorEntry("It says nothing about the group.", "the client's own log says which call it ended")


def suggestion(word: str) -> str:
    """Return ``"; did you mean X?"`` for a word that names nothing, or no words where nothing is near."""
    known = [*CAUSES, *(code.name for code in ErrorCode)]
    return did_you_mean(word[:100].strip().upper().replace("-", "_").replace(" ", "_"), known)


def _plain(word: str) -> str:
    return word.strip().lower().replace("_", "").replace("-", "").replace(" ", "")
