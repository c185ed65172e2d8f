"""Sections of a pipeline file (YAML), with line numbers for errors. An unknown key is an error.

The parser replaces ``${NAME}`` in strings by the environment variable NAME: see config/properties.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from kohort.config.properties import fill_in
from kohort.errors import ConfigError
from kohort.extras import needs
from kohort.nearest import did_you_mean

T = TypeVar("T")

_MISSING: Final = object()
_KINDS: Final[dict[type, str]] = {str: "text", int: "a whole number", bool: "true or false", list: "a list"}


class PipelineError(ConfigError):
    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}, line {line}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem


class YamlSection:
    """Mapping in a pipeline file. ``take`` removes a key and returns its value; ``close`` rejects remaining keys."""

    def __init__(self, file: str, line: int, name: str, entries: Mapping[str, tuple[Any, int]]) -> None:
        self.file = file
        self.line = line
        self.name = name
        self._entries = dict(entries)
        self._known: list[str] = []
        self._parent_keys: tuple[str, ...] = ()

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def text_of(self, key: str) -> str:
        value = self._entries[key][0] if key in self._entries else ""
        return value if isinstance(value, str) else ""

    def holds_section(self, key: str) -> bool:
        return key in self._entries and isinstance(self._entries[key][0], YamlSection)

    def take(self, key: str, kind: type[T], default: Any = _MISSING) -> T:
        """Remove a key and return its value. Raises PipelineError for a missing key or a value of another type."""
        self._known.append(key)
        if key not in self._entries:
            if default is _MISSING:
                raise self.error(f"{self.name} needs {key!r}")
            return default  # type: ignore[no-any-return]  # the caller's default is of the caller's kind
        value, line = self._entries.pop(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(f"{key}: expected {_KINDS.get(kind, 'keys and values')}", line)
        return value

    def section(self, key: str) -> YamlSection | None:
        return self.take(key, YamlSection, None)

    def sections(self, key: str) -> list[YamlSection]:
        line = self.line_of(key)
        items = self.take(key, list, [])
        if not all(isinstance(item, YamlSection) for item in items):
            raise self.error(f"{key}: expected a list of entries with keys and values", line)
        return items

    def texts(self, key: str, default: Any = _MISSING) -> list[str]:
        line = self.line_of(key)
        if key in self._entries and isinstance(self._entries[key][0], str):
            return [self.take(key, str)]
        items = self.take(key, list, default)
        if any(not isinstance(item, str) for item in items):
            raise self.error(f"{key}: expected a list of texts", line)
        return items

    def choice(self, key: str, allowed: Iterable[str], default: str) -> str:
        line = self.line_of(key)
        value = self.take(key, str, default)
        options = list(allowed)
        if value not in options:
            raise self.error(f"{key}: {value!r}: expected {' or '.join(options)}{did_you_mean(value, options)}", line)
        return value

    def one_of(self, *keys: str) -> str:
        """Return which of ``keys`` the section has. Raises PipelineError if it has none or several."""
        self._known.extend(keys)
        present = [k for k in keys if k in self._entries]
        if len(present) != 1:
            self.close()
            what = f"it has {' and '.join(present)}" if present else "it has none of them"
            raise self.error(f"{self.name} needs exactly one of {', '.join(keys)}; {what}")
        return present[0]

    def line_of(self, key: str) -> int:
        return self._entries[key][1] if key in self._entries else self.line

    def plain(self, key: str, default: Any = None) -> Any:
        """Remove a key. Return its value as plain dicts, lists and scalars. Nested keys are not checked."""
        self._known.append(key)
        return _plain(self._entries.pop(key)[0]) if key in self._entries else default

    def names(self) -> list[str]:
        """Return the keys that are not taken yet. In a section such as ``sources``, the user chooses them."""
        return list(self._entries)

    def error(self, problem: str, line: int = 0) -> PipelineError:
        return PipelineError(self.file, line or self.line, problem)

    def close(self) -> None:
        for key, (_, line) in self._entries.items():
            if key not in self._known:
                known = f"; keys are {', '.join(dict.fromkeys(self._known))}" if self._known else ""
                if key in self._parent_keys:
                    known = f"; move it out of this section, to the level of the key {self.name.rpartition('.')[2]}"
                hint = did_you_mean(key, self._known) or known
                raise self.error(f"unknown key {key!r} in {self.name}{hint}", line)

    def note_parent_keys(self, *keys: str) -> None:
        """Note the valid keys of the parent section: the error for one of them in this section names that section."""
        self._parent_keys = keys


def section_of(value: Mapping[str, Any], file: str, line: int, name: str = "the file") -> YamlSection:
    def made(item: Any, path: str) -> Any:
        if isinstance(item, Mapping):
            return section_of(item, file, line, path)
        if isinstance(item, list | tuple):
            return [made(each, f"{path}[{i}]") for i, each in enumerate(item)]
        return item

    entries = {k: (made(v, k if name == "the file" else f"{name}.{k}"), line) for k, v in value.items()}
    return YamlSection(file, line, name, entries)


def _plain(value: Any) -> Any:
    if isinstance(value, YamlSection):
        return {key: _plain(item) for key, (item, _) in value._entries.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def parse_document(text: str, file: str, environ: Mapping[str, str]) -> YamlSection:
    """Parse the YAML text of a pipeline file into its top-level section. Raises PipelineError with the line."""
    with needs("pipeline", "a pipeline file"):
        import yaml
    try:
        node = _by_fastest("compose", text)
        if node is None:
            raise PipelineError(file, 1, "the pipeline file is empty")
        top = _YamlReader(file, environ).value(node, "the file")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise PipelineError(
            file, mark.line + 1 if mark else 1, f"the pipeline file is not YAML: {error.problem}"
        ) from None
    except yaml.YAMLError as error:
        raise PipelineError(file, 1, f"the pipeline file is not YAML: {error}") from None
    except RecursionError:
        raise PipelineError(
            file, 1, "the pipeline file is nested too deeply, or has an alias that contains itself"
        ) from None
    if not isinstance(top, YamlSection):
        raise PipelineError(file, 1, "expected keys and values at the top of the pipeline file")
    return top


def _by_fastest(work: str, text: str) -> Any:
    # libyaml is eight times as fast as PyYAML's Python parser.
    # The Python parser accepts more YAML and has clearer errors, so it parses the text again if libyaml rejects it.
    import yaml

    if yaml.__with_libyaml__:
        with suppress(yaml.YAMLError, UnicodeEncodeError):
            return getattr(yaml, work)(text, Loader=yaml.CSafeLoader)
    return getattr(yaml, work)(text, Loader=yaml.SafeLoader)


class _YamlReader:
    def __init__(self, file: str, environ: Mapping[str, str]) -> None:
        self._file = file
        self._environ = environ

    def value(self, node: Any, name: str) -> Any:
        import yaml

        if isinstance(node, yaml.MappingNode):
            return self._section(node, name)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, f"{name}[{i}]") for i, item in enumerate(node.value)]
        return self._scalar(node)

    def _section(self, node: Any, name: str) -> YamlSection:
        entries: dict[str, tuple[Any, int]] = {}
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in entries:
                raise PipelineError(self._file, line, f"{key!r} appears twice in {name}")
            entries[key] = (self.value(value_node, key if name == "the file" else f"{name}.{key}"), line)
        return YamlSection(self._file, node.start_mark.line + 1, name, entries)

    def _scalar(self, node: Any) -> Any:
        import yaml

        try:
            text = fill_in(node.value, self._environ)
        except ConfigError as error:
            raise PipelineError(self._file, node.start_mark.line + 1, str(error)) from None
        if node.style:  # quoted and block scalars are always strings
            return text
        try:
            return _by_fastest("load", text) if text else None
        except (yaml.YAMLError, ValueError):  # an invalid date, or a number without digits: keep the text
            return text
