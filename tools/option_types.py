"""Write src/kohort/aio/option_types.py from the option tables, or check that it is up to date."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kohort.config import BrokerConfig, options_of
from kohort.config.client import PARTITIONERS, SERIALIZERS, AdminConfig, ConsumerConfig, ProducerConfig
from kohort.config.client_options import PROFILE
from kohort.config.client_security import ClientSecurityConfig
from kohort.config.handlers import HandlerConfig
from kohort.config.options import Option
from kohort.config.security_names import SAME
from kohort.secret import Secret

TARGET = Path(__file__).parents[1] / "src" / "kohort" / "aio" / "option_types.py"
HEAD = '''"""Types of options, for type checkers and editors. ``make docs`` writes them from the option tables.

``Unpack[ConsumerOptions]`` gives keyword arguments their names and types. A keyword is Kafka's name with underscores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from kohort.assignors.spec import Assignor
from kohort.schemas.serde import Deserializer, Serializer
from kohort.secret import Secret


class TokenProvider(Protocol):
    """Source of SASL/OAUTHBEARER tokens, as in kafka-python and aiokafka."""

    def token(self) -> Any:
        """Return a token as text, or an awaitable of it."""


# fmt: off
'''
PLAIN: Final = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    list: "str | Sequence[str]",
    Secret: "str | Secret",
}
SPECIAL: Final = {
    "partitioner": "{} | Callable[[bytes | None, int], int | None]",
    "sasl.oauth.token.provider": "Callable[..., Any] | TokenProvider | str | None",
    "partition.assignment.strategy": "str | Sequence[str | Assignor]",
    "auto.offset.reset": "{} | timedelta",
    "fatal": "type[Exception] | Sequence[type[Exception]]",
    "key.deserializer": "Callable[[bytes], Any] | Deserializer | {} | None",
    "value.deserializer": "Callable[[bytes], Any] | Deserializer | {} | None",
    "key.serializer": "Callable[[Any], bytes | str | None] | Serializer | {} | None",
    "value.serializer": "Callable[[Any], bytes | str | None] | Serializer | {} | None",
}
CHOICES: Final = dict.fromkeys(
    ("key.deserializer", "value.deserializer", "key.serializer", "value.serializer"), SERIALIZERS
) | {"partitioner": PARTITIONERS, "auto.offset.reset": ("earliest", "latest", "none")}
WIDTH: Final = 116


def type_of(option: Option, *, any_case: bool) -> str:
    """Return the annotation of an option. ``any_case``: lower-case forms of choices are valid, too."""
    choices = CHOICES.get(option.name, () if option.type is list else option.choices)
    found = literal(choices, any_case=any_case) if choices else PLAIN.get(option.type, "Any")
    found = SPECIAL.get(option.name, "{}").format(found)
    return f"{found} | None" if option.default is None and "None" not in found.split(" | ")[-1] else found


def literal(choices: Iterable[str], *, any_case: bool) -> str:
    spellings = dict.fromkeys(choices)
    if any_case:
        spellings |= dict.fromkeys(choice.lower() for choice in choices)
    numbers = [choice for choice in choices if choice.removeprefix("-").isdigit()] if any_case else []
    return f"Literal[{', '.join([*(repr(s).replace(chr(39), chr(34)) for s in spellings), *numbers])}]"


def lines_of(name: str, base: str, doc: str, fields: dict[str, str]) -> list[str]:
    lines = ["", "", f"class {name}({base}, total=False):", f'    """{doc}"""', ""]
    for field, kind in fields.items():
        lines += wrapped(f"    {field}: {kind}")
    return lines


def wrapped(line: str) -> list[str]:
    """Return a line, or one line for each choice of a ``Literal`` in a long line."""
    if len(line) <= WIDTH:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    before, _, rest = line.partition("Literal[")
    inside, _, after = rest.partition("]")
    return [f"{before}Literal[", *(f"{indent}    {part}," for part in inside.split(", ")), f"{indent}]{after}"]


def alias_long(fields: dict[str, str], aliases: dict[str, str]) -> dict[str, str]:
    """Replace long types that several fields have by aliases, which are added to ``aliases`` (name -> type)."""
    long = Counter(kind for field, kind in fields.items() if len(f"    {field}: {kind}") > WIDTH)
    names: dict[str, str] = {}
    for field, kind in fields.items():
        if long[kind] > 1 and kind not in names:
            names[kind] = "_" + field.title().replace("_", "")
            aliases[names[kind]] = kind
    return {field: names.get(kind, kind) for field, kind in fields.items()}


def client_fields() -> dict[str, str]:
    """Return options of all clients, and the security options by the names of librdkafka and kafka-python."""
    table = {option.name: option for option in options_of(AdminConfig)}
    fields = {name: type_of(option, any_case=True) for name, option in table.items()}
    fields |= {name: type_of(table[target], any_case=True) for name, target in SAME.items()}
    fields |= {"ssl.check.hostname": "bool", PROFILE: "str"}
    return {name.replace(".", "_"): kind for name, kind in fields.items()}


def own_fields(config: type, shared: Iterable[str]) -> dict[str, str]:
    found = {option.attribute: type_of(option, any_case=True) for option in options_of(config)}
    return {name: kind for name, kind in found.items() if name not in shared}


def broker_fields() -> dict[str, str]:
    fields: dict[str, str] = {}
    for option in options_of(BrokerConfig):
        for spelling in (option.name.replace(".", "_"), option.attribute):
            fields[spelling] = type_of(option, any_case=False)
    return fields


def text() -> str:
    aliases: dict[str, str] = {}
    client = alias_long(client_fields(), aliases)
    broker = alias_long(broker_fields(), aliases)
    lines = ["", ""]
    for name, kind in aliases.items():
        lines += wrapped(f"{name}: TypeAlias = {kind}")
    lines += lines_of("ClientOptions", "TypedDict", "Options of every client.", client)
    consumer, producer = own_fields(ConsumerConfig, client), own_fields(ProducerConfig, client)
    lines += lines_of("ConsumerOptions", "ClientOptions", "Options of consumers and consumer groups.", consumer)
    lines += lines_of("ProducerOptions", "ClientOptions", "Options of producers.", producer)
    handler = own_fields(HandlerConfig, ())
    lines += lines_of("HandlerOptions", "TypedDict", "Options of ``ConsumerGroup.handle``.", handler)
    lines += lines_of("AdminOptions", "ClientOptions", "Options of admin clients.", {})[:-1]
    lines += lines_of("BrokerOptions", "TypedDict", "Options of the embedded ``Broker``.", broker)
    return HEAD + "\n".join(lines[2:]) + "\n"


def main() -> int:
    assert {option.name for option in options_of(ClientSecurityConfig)} >= set(SAME.values())
    if "--check" in sys.argv:
        if TARGET.read_text() != text():
            print(f"{TARGET.name} is not what the option tables say: run make docs", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
