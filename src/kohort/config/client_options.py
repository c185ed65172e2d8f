"""Build the configuration of a client from the options of its user.

Options come from a profile, a mapping and keywords. Names may be those of other clients, and texts may refer to
environment variables and files.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from kohort.config.client import INSTEAD_OF_CLASSIC, ClientConfig, ConsumerConfig, ProducerConfig
from kohort.config.client_files import options_for, read_profile
from kohort.config.client_values import as_spelled
from kohort.config.options import options_of, parse_config
from kohort.config.other_names import instead_of
from kohort.config.properties import fill_in_value
from kohort.config.schema_registry import PREFIX
from kohort.config.security_names import REFUSED, SAME, SPECIAL, WITHOUT_COUNTERPART, is_hidden, translated
from kohort.errors import ConfigError
from kohort.nearest import did_you_mean

C = TypeVar("C", bound=ClientConfig)
PROFILE: Final = "profile"
log = logging.getLogger(__name__)


def client_config(cls: type[C], config: Mapping[str, Any] | None, options: Mapping[str, Any]) -> C:
    """Build a client's configuration from Kafka's dotted names in a mapping, from keywords, or from both.

    ``profile`` names a table of ``clusters.toml``, whose options the others override. None means the default. Texts may
    contain ``${NAME}`` and ``${file:PATH}``. Raises ConfigError for unknown options (all in one message), conflicting
    duplicates, a value out of bounds, or options that exclude each other.
    """
    if config is not None and not isinstance(config, Mapping):
        raise ConfigError(
            f"the first argument is a mapping of options, not {config!r}; topics are for subscribe() and send()"
        )
    given, spellings = _merged(config or {}, options)
    _check_names(cls, spellings)
    given = translated(given)
    if (profile := given.pop(PROFILE, None)) is not None:
        given = {**translated(options_for(cls, _profile_options(profile))), **given}
    by_name = {o.name: o for o in options_of(cls)}
    given = {name: as_spelled(by_name[name], value) for name, value in given.items()}
    if cls is ConsumerConfig:
        _check_group_protocol(given)
    return parse_config(cls, given)


def registry_options_of(config: Mapping[str, Any] | str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a schema registry: a URL or a mapping, keywords, and those of a ``profile`` below them.

    Texts may contain ``${NAME}`` and ``${file:PATH}``. Raises ConfigError.
    """
    if config is not None and not isinstance(config, str | Mapping):
        raise ConfigError(f"the first argument is the URL of a schema registry or a mapping of options, not {config!r}")
    given, _ = _merged({"url": config} if isinstance(config, str) else config or {}, options)
    given = {name.removeprefix(PREFIX): value for name, value in given.items()}
    if (profile := given.pop(PROFILE, None)) is not None:
        shared = translated(_profile_options(profile))
        given = {n.removeprefix(PREFIX): v for n, v in shared.items() if n.startswith(PREFIX)} | given
    return given


def _merged(*sources: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the options by dotted name with filled-in texts, and the user's spelling of each name."""
    given: dict[str, Any] = {}
    spellings: dict[str, str] = {}
    for source in sources:
        for spelling, value in source.items():
            if not isinstance(spelling, str):
                raise ConfigError(f"an option's name is text, not {spelling!r}")
            name = spelling.replace("_", ".")
            spellings.setdefault(name, spelling)
            if value is None:
                continue
            if name in given and given[name] != value:
                shown = "" if is_hidden(name) else f": {given[name]!r} and {value!r}"
                raise ConfigError(f"{name} is given twice{shown or ' with different values'}")
            given[name] = value
    return {name: _filled(spellings[name], value) for name, value in given.items()}, spellings


def _filled(spelling: str, value: Any) -> Any:
    try:
        return fill_in_value(value, os.environ)
    except ConfigError as error:
        raise ConfigError(f"option {spelling!r}: {error}") from None


def _profile_options(profile: Any) -> Mapping[str, Any]:
    if not isinstance(profile, str):
        raise ConfigError(f"profile={profile!r}: expected the name of a cluster in clusters.toml")
    settings = read_profile(profile, os.environ)
    for warning in settings.warnings:
        log.warning("%s", warning)
    return settings.options


def _check_names(cls: type[ClientConfig], spellings: Mapping[str, str]) -> None:
    """Raise ConfigError, with a hint for each, if the client lacks some of these options."""
    known = [*(o.name for o in options_of(cls)), PROFILE]
    problems = []
    for name, spelling in spellings.items():
        if SAME.get(name, name) in known or name in SPECIAL or name in WITHOUT_COUNTERPART:
            continue
        problems.append(_problem(name, spelling, known))
    if len(problems) == 1:
        raise ConfigError(problems[0])
    if problems:
        raise ConfigError(f"{len(problems)} options are wrong:\n" + "\n".join(f"  {problem}" for problem in problems))


def _problem(name: str, spelling: str, known: list[str]) -> str:
    if name in REFUSED:
        return f"{spelling} is not supported: {REFUSED[name]}"
    for kind, other in (("consumer", ConsumerConfig), ("producer", ProducerConfig)):
        if name in {o.name for o in options_of(other)}:
            return f"{spelling} is an option of a {kind}, not of this client"
    if hint := instead_of(name):
        return f"unknown option {spelling!r}{hint}"
    nearest = did_you_mean(name, known)
    return f"unknown option {spelling!r}{nearest if '.' in spelling else nearest.replace('.', '_')}"


def _check_group_protocol(given: Mapping[str, Any]) -> None:
    """Raise ConfigError for an option of the other group protocol, with its replacement."""
    protocol = given.get("group.protocol", "classic")
    if protocol == "consumer":
        for name, instead in INSTEAD_OF_CLASSIC.items():
            if name in given:
                raise ConfigError(f"{name} has no meaning with group.protocol=consumer: {instead}")
    if protocol == "classic" and given.get("group.remote.assignor") is not None:
        raise ConfigError(
            "group.remote.assignor has no meaning with group.protocol=classic: set partition.assignment.strategy, or "
            "group.protocol=consumer"
        )
