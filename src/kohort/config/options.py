"""Declaration, parsing, checks and description of an option; the other files of this folder declare the options."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from kohort.errors import ConfigError
from kohort.nearest import did_you_mean
from kohort.secret import HIDDEN, Secret

C = TypeVar("C")
INT_MAX: Final = 0x7FFFFFFF


class ValueRule(NamedTuple):
    """Check beyond bounds and choices, with a description of the allowed values."""

    holds: Callable[[Any], bool]
    words: str


@dataclass(frozen=True, slots=True)
class Option:
    """Option of Kafka: name, type, default, bounds, and the attribute of its configuration class.

    ``bits``: size of an integer in Kafka: 16, 32 or 64. ``no_effect``: reason if the option has no effect.
    ``falls_back_to``: attribute of BrokerConfig with the default of an option of topics or groups.
    """

    name: str
    attribute: str
    type: type
    default: Any
    low: int | None
    high: int | None
    choices: tuple[str, ...]
    rule: ValueRule | None
    bits: int
    doc: str
    no_effect: str
    falls_back_to: str | None = None

    def parse(self, text: Any) -> Any:
        """Parse ``text``. Raises ConfigError with the option, the value and the allowed ones."""
        try:
            value = self._convert(text)
        except (TypeError, ValueError):
            shown = HIDDEN if self.type is Secret else repr(text)
            raise ConfigError(f"{self.name}={shown}: expected {self.allowed()}") from None
        self.check(value)
        return value

    def _convert(self, text: Any) -> Any:
        if self.type is bool:
            flag = {"true": True, "false": False}.get(str(text).strip().lower())
            if flag is None:
                raise ValueError("not a boolean")
            return flag
        if self.type is int:
            if isinstance(text, bool) or (isinstance(text, float) and not text.is_integer()):
                raise ValueError("a boolean, or a fraction")
            return int(text)
        if self.type is float:
            return _finite(text)
        if self.type is list:
            return [p.strip() for p in text.split(",") if p.strip()] if isinstance(text, str) else _listed(text)
        if text is None or self.type is object:
            return text
        if self.type is Secret:
            return text if isinstance(text, Secret) else Secret(_sendable(text))
        return _sendable(text)

    def check(self, value: Any) -> None:
        low_bad = self.low is not None and value is not None and value < self.low
        high_bad = self.high is not None and value is not None and value > self.high
        values = value if isinstance(value, list) else [value]
        # assignor objects have no name among the choices
        choice_bad = bool(self.choices) and any(isinstance(v, str | None) and v not in self.choices for v in values)
        if low_bad or high_bad or choice_bad or (self.rule is not None and not self.rule.holds(value)):
            raise ConfigError(f"{self.name}={value!r}: expected {self.allowed()}")
        if self.type is int and value is not None and not -(1 << self.bits - 1) <= value < 1 << self.bits - 1:
            raise ConfigError(f"{self.name}={value!r}: expected {self.allowed()}, in {self.bits} bits")

    def description(self) -> str:
        """Return the option's help, with the reason if it has no effect."""
        return f"{self.doc} No effect here: {self.no_effect}." if self.no_effect else self.doc

    def allowed(self) -> str:
        """Return a description of the allowed values."""
        if self.rule is not None:
            return self.rule.words
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        kind = {int: "an integer", float: "a number", bool: "true or false", list: "a comma-separated list"}.get(
            self.type, "text"
        )
        if self.low is not None and self.high is not None:
            return f"{kind} from {self.low} to {self.high}"
        if self.low is not None:
            return f"{kind} >= {self.low}"
        return kind


def _listed(given: Any) -> list[Any]:
    items = list(given)
    if any(item is None or isinstance(item, int | float | bytes | list | dict) for item in items):
        raise TypeError("neither texts nor objects")
    return items


def kafka_int(name: str, text: str) -> int:
    """Parse an integer as Kafka parses options of groups and client metrics. Raises Kafka's error."""
    digits = text.strip()
    if not re.fullmatch("[+-]?[0-9]{1,19}", digits) or not -(1 << 31) <= int(digits) < 1 << 31:
        raise ConfigError(f"Invalid value {text} for configuration {name}: Not a number of type INT")
    return int(digits)


def _sendable(text: Any) -> str:
    if isinstance(text, bytes | bytearray | memoryview):
        raise TypeError("bytes")
    value = str(text)
    value.encode()  # UnicodeEncodeError is a ValueError
    return value


def _finite(text: Any) -> float:
    value = float(text)
    if isinstance(text, bool) or not math.isfinite(value):
        raise ValueError("not a number")
    return value


def option(
    default: Any,
    doc: str,
    *,
    name: str = "",
    of: type | None = None,
    low: int | None = None,
    high: int | None = None,
    choices: tuple[str, ...] = (),
    rule: ValueRule | None = None,
    bits: int = 0,
    no_effect: str = "",
) -> Any:
    """Declare a dataclass field that is one of Kafka's options.

    ``name``: default the attribute with dots. ``of``: type, if ``default`` does not have it. ``bits``: default 64 for
    times and large numbers, 32 for other integers.
    """
    kind = of or (str if default is None else type(default))
    return _field(Option(name, "", kind, default, low, high, choices, rule, bits, doc, no_effect))


def as_in(config: type, attribute: str, *, name: str = "") -> Any:
    """Declare a dataclass field that is the option ``attribute`` of ``config`` under another name."""
    (model,) = (o for o in options_of(config) if o.attribute == attribute)
    return _field(dataclasses.replace(model, name=name, falls_back_to=attribute))


def gathered(prefix: str, gather: Callable[[Mapping[str, Any]], Any]) -> Any:
    """Declare a dataclass field with all options of this prefix, converted by ``gather``."""
    return dataclasses.field(default_factory=dict, metadata={"prefix": prefix, "gather": gather})


def _field(declared: Option) -> Any:
    default = declared.default
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata={"option": declared})
    return dataclasses.field(default=default, metadata={"option": declared})


def options_of(config: type) -> tuple[Option, ...]:
    """Return the option table of a configuration class, in declaration order."""
    return _table_of(config)


@cache  # one entry per configuration class
def _table_of(config: type) -> tuple[Option, ...]:
    return tuple(_named(f.metadata["option"], f.name) for f in dataclasses.fields(config) if "option" in f.metadata)


def _named(declared: Option, attribute: str) -> Option:
    name, default = declared.name or attribute.replace("_", "."), declared.default
    is_wide = name.endswith(".ms") or (declared.type is int and default is not None and default > INT_MAX)
    return dataclasses.replace(declared, name=name, attribute=attribute, bits=declared.bits or (64 if is_wide else 32))


@cache
def _by_name(config: type) -> dict[str, Option]:
    """Return the options by Kafka's names, by these with underscores, and by attribute."""
    table = options_of(config)
    underscored = {o.name.replace(".", "_"): o for o in table}
    return {o.name: o for o in table} | underscored | {o.attribute: o for o in table}


def attribute_of(config: type, name: str) -> str:
    return _by_name(config)[name].attribute


def parse_config(config: type[C], given: Mapping[str, Any]) -> C:
    """Build ``config`` from options by Kafka's names (``group.id``) or by attribute (``group_id``).

    Raises ConfigError for an unknown name (with the nearest known one) and for a value out of bounds.
    """
    table: type = config
    by_name, gathering = _by_name(table), [f for f in dataclasses.fields(table) if "gather" in f.metadata]
    prefixes = tuple(f.metadata["prefix"] for f in gathering)
    values = {}
    for name, text in given.items():
        if name in by_name:
            values[by_name[name].attribute] = by_name[name].parse(text)
        elif not name.startswith(prefixes):
            raise unknown_option(name, [o.name for o in options_of(config)])
    for field in gathering:
        named = {name: text for name, text in given.items() if name.startswith(field.metadata["prefix"])}
        values[field.name] = field.metadata["gather"](named)
    return config(**values)


def unknown_option(name: str, known: Iterable[str]) -> ConfigError:
    """Return the error for an unknown option name, with the nearest name in ``known``."""
    return ConfigError(f"unknown option {name!r}{did_you_mean(name, known)}")
