"""Principals of client certificates: ``ssl.principal.mapping.rules`` (KIP-371).

``RULE:PATTERN/NAME/`` rewrites a subject that the pattern matches completely; ``L`` or ``U`` changes its case;
``DEFAULT`` keeps the subject. The first matching rule counts (protocol/security.md#names-in-certificates).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from kohort.errors import ConfigError
from kohort.pattern import Rewrite

OPTION: Final = "ssl.principal.mapping.rules"
DEFAULT: Final = "DEFAULT"
RULE: Final = "RULE:"


class NameRule(NamedTuple):
    """Mapping rule; without ``rewrite`` the user's name is the subject."""

    rewrite: Rewrite | None
    letters: str

    def name(self, subject: str) -> str | None:
        """Return the user's name; None if the rule does not match."""
        if self.rewrite is None:
            return subject
        name = self.rewrite.of(subject)
        if name is not None and self.letters:
            name = name.lower() if self.letters == "L" else name.upper()
        return name


class NameRules:
    def __init__(self, text: str) -> None:
        self._rules: list[NameRule] = []
        self._text = text
        at = 0
        while at < len(text):
            if text[at].isspace() or text[at] == ",":
                at += 1
            else:
                at = self._read_rule(at)

    def name(self, subject: str) -> str | None:
        return next((name for rule in self._rules if (name := rule.name(subject)) is not None), None)

    def _read_rule(self, begin: int) -> int:
        if self._text.startswith(DEFAULT, begin):
            at = begin + len(DEFAULT)
            self._rules.append(NameRule(None, ""))
        elif self._text.startswith(RULE, begin):
            pattern, at = self._until_slash(begin, begin + len(RULE))
            replacement, at = self._until_slash(begin, at)
            letters = self._text[at : at + 1]
            letters = letters if letters in {"L", "U"} else ""
            at += len(letters)
            try:
                self._rules.append(NameRule(Rewrite(pattern, replacement), letters))
            except ValueError as error:
                raise self._refused(begin, str(error)) from None
        else:
            raise self._refused(begin, "expected RULE:PATTERN/NAME/, RULE:PATTERN/NAME/L, .../U, or DEFAULT")
        rest, _, _ = self._text[at:].partition(",")
        if rest.strip():
            raise self._refused(begin, f"expected a comma or the end, not {rest.strip()!r}")
        return at + len(rest)

    def _until_slash(self, begin: int, at: int) -> tuple[str, int]:
        end = at
        while end < len(self._text):
            if self._text[end] == "/":
                return self._text[at:end], end + 1
            end += 2 if self._text[end] == "\\" else 1
        raise self._refused(begin, "expected RULE:PATTERN/NAME/, with both slashes")

    def _refused(self, begin: int, problem: str) -> ConfigError:
        return ConfigError(f"{OPTION}: {self._text[begin:][:80]!r}: {problem}")


@lru_cache(maxsize=64)
def name_rules(text: str) -> NameRules:
    return NameRules(text)
